#pragma once

// For tests: a client of raw sockets, so that a test can send anything, in any pieces.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

namespace lagoon {

struct HttpTestResponse {
  int status = 0;  // 0: the connection ended before a whole response came
  std::map<std::string, std::string> fields;  // names in lower case
  std::string body;
};

class HttpTestClient {
 public:
  /// `receive_buffer`: that of the socket, in bytes; 0: the system's default.
  explicit HttpTestClient(int port, int receive_buffer = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval timeout{10, 0};
    if (receive_buffer > 0) {
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~HttpTestClient() { Close(); }
  HttpTestClient(const HttpTestClient&) = delete;
  HttpTestClient& operator=(const HttpTestClient&) = delete;

  bool connected() const { return connected_; }

  /// Returns false if the server stopped reading before all was sent.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  void Close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

  /// The next response. Bytes after it stay for the next call. `with_body`: false for the answer to
  /// HEAD.
  HttpTestResponse Receive(bool with_body = true) {
    HttpTestResponse response;
    std::size_t end = 0;
    while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
      if (!ReadMore()) return response;
    }
    const int status = std::atoi(received_.c_str() + received_.find(' '));
    ParseFields(received_.substr(0, end), response);
    const std::size_t body = end + 4;
    const std::size_t length =
        with_body ? std::strtoul(response.fields["content-length"].c_str(), nullptr, 10) : 0;
    while (received_.size() < body + length) {
      if (!ReadMore()) return response;
    }
    response.status = status;
    response.body = received_.substr(body, length);
    received_.erase(0, body + length);
    return response;
  }

  /// Everything up to `mark`, included; empty if the connection ended before.
  std::string ReceiveUntil(std::string_view mark) {
    std::size_t at = 0;
    while ((at = received_.find(mark)) == std::string::npos) {
      if (!ReadMore()) return {};
    }
    std::string text = received_.substr(0, at + mark.size());
    received_.erase(0, text.size());
    return text;
  }

  /// Receives so many bytes and keeps none. Returns false if the connection ended before.
  bool Drop(std::size_t bytes) const {
    char piece[16384];
    while (bytes > 0) {
      const ssize_t got = ::recv(socket_, piece, std::min(bytes, sizeof(piece)), 0);
      if (got <= 0) return false;
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }

  /// Receives to the end of the connection and allocates nothing. The status of the answer; 0: the
  /// connection ended without one; -1: it did not end in time.
  int StatusAtEnd() const {
    char begin[13] = {};  // "HTTP/1.1 200"
    char bytes[16384];
    std::size_t kept = 0;
    for (;;) {
      const ssize_t got = ::recv(socket_, bytes, sizeof(bytes), 0);
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return -1;
      if (got <= 0) return kept < 12 ? 0 : std::atoi(begin + 9);
      const std::size_t more = std::min(static_cast<std::size_t>(got), 12 - kept);
      std::memcpy(begin + kept, bytes, more);
      kept += more;
    }
  }

  /// True when something can be received at once.
  bool HasInput() const {
    pollfd readable{socket_, POLLIN, 0};
    return ::poll(&readable, 1, 0) > 0;
  }

  /// True when the server closes (or resets) without sending another byte.
  bool ReceivesEnd() { return received_.empty() && !ReadMore(); }

 private:
  bool ReadMore() {
    char bytes[16384];
    const ssize_t got = ::recv(socket_, bytes, sizeof(bytes), 0);
    if (got <= 0) return false;
    received_.append(bytes, static_cast<std::size_t>(got));
    return true;
  }

  static void ParseFields(std::string_view head, HttpTestResponse& response) {
    std::size_t at = head.find("\r\n");
    while (at != std::string_view::npos) {
      const std::size_t next = head.find("\r\n", at + 2);
      const std::string_view line = head.substr(at + 2, next - at - 2);
      std::string name(line.substr(0, line.find(':')));
      std::transform(name.begin(), name.end(), name.begin(),
                     [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      const std::size_t colon = line.find(':');
      if (colon != std::string_view::npos) response.fields[name] = line.substr(colon + 2);
      at = next;
    }
  }

  int socket_;
  bool connected_ = false;
  std::string received_;
};

}  // namespace lagoon
