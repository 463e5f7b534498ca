#include "bench/client/http_connection.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>

namespace lagoon::bench {
namespace {

constexpr std::string_view kHeadEnd = "\r\n\r\n";

/// The value of a field of a head in lower case; nothing: it is not there.
std::optional<std::string> Field(const std::string& head, std::string_view name) {
  const std::size_t at = head.find(fmt::format("\r\n{}:", name));
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = head.find_first_not_of(' ', at + name.size() + 3);
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

std::optional<std::size_t> Number(const std::optional<std::string>& text) {
  std::size_t number = 0;
  if (!text) return std::nullopt;
  const auto read = std::from_chars(text->data(), text->data() + text->size(), number);
  if (read.ec != std::errc()) return std::nullopt;
  return number;
}

}  // namespace

Result<HttpConnection> HttpConnection::Connect(int port) {
  HttpConnection connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(connection.socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
      0) {
    return Fail(ErrorCode::kUnavailable, fmt::format("no server listens on 127.0.0.1:{}", port));
  }
  const int on = 1;
  ::setsockopt(connection.socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return connection;
}

HttpConnection::~HttpConnection() {
  if (socket_ >= 0) ::close(socket_);
}

Status HttpConnection::Send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return Fail(ErrorCode::kUnavailable, "the server closed the connection");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Status HttpConnection::Read(TimePoint until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Now());
  pollfd wait{socket_, POLLIN, 0};
  if (::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(0, left.count()))) <= 0) {
    return Fail(ErrorCode::kDeadlineExceeded, "no answer in time");
  }
  std::array<char, 1 << 16> part;
  const ssize_t read = ::recv(socket_, part.data(), part.size(), 0);
  if (read <= 0) return Fail(ErrorCode::kUnavailable, "the server closed the connection");
  rest_.append(part.data(), static_cast<std::size_t>(read));
  return {};
}

Result<HttpAnswer> HttpConnection::Receive(Nanoseconds limit) {
  const TimePoint until = Now() + limit;
  std::size_t end = 0;
  while ((end = rest_.find(kHeadEnd)) == std::string::npos) LAGOON_RETURN_IF_ERROR(Read(until));
  std::string head = rest_.substr(0, end + 2);
  std::ranges::transform(head, head.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto length = Number(Field(head, "content-length"));
  const auto status = Number(head.substr(std::min(head.size(), head.find(' ') + 1)));
  if (!length || !status) return Fail(ErrorCode::kInternal, "no HTTP answer: " + head);
  const std::size_t begin = end + kHeadEnd.size();
  while (rest_.size() < begin + *length) LAGOON_RETURN_IF_ERROR(Read(until));
  HttpAnswer answer;
  answer.status = static_cast<int>(*status);
  answer.body = rest_.substr(begin, *length);
  answer.json_bytes = Number(Field(head, "inference-header-content-length")).value_or(*length);
  answer.json_bytes = std::min(answer.json_bytes, *length);
  answer.closes = Field(head, "connection") == "close";
  rest_.erase(0, begin + *length);
  return answer;
}

bool HttpConnection::HasMore() {
  while (rest_.empty() && Read(Now() + std::chrono::milliseconds(20))) {
  }
  return !rest_.empty();
}

std::string HttpPost(std::string_view path, std::string_view body, std::size_t json_bytes) {
  std::string request =
      fmt::format("POST {} HTTP/1.1\r\nHost: bench\r\nContent-Length: {}\r\n", path, body.size());
  if (json_bytes < body.size()) {
    request += fmt::format("Inference-Header-Content-Length: {}\r\n", json_bytes);
  }
  return request.append("\r\n").append(body);
}

}  // namespace lagoon::bench
