#include "server/grpc/grpc_guard.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpc/support/alloc.h>
#include <linux/tcp.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"

namespace lagoon {
namespace {

using Json = nlohmann::json;

// A connection is judged again when it has sent so many bytes more: too few for streams that
// matter.
constexpr std::uint64_t kStep = 4096;
// Most connections that are judged at a time, those first that wait longest. One takes 20 us.
constexpr std::size_t kMostJudged = 64;
constexpr std::chrono::seconds kShutOut{1};
constexpr std::size_t kMostShutOut = 1024;
constexpr std::chrono::seconds kWarnPeriod{5};
constexpr std::chrono::seconds kTrimDelay{1};

/// A duplicate of a descriptor that another owner may close meanwhile.
class Duplicate {
 public:
  explicit Duplicate(int descriptor) : descriptor_(::dup(descriptor)) {}
  ~Duplicate() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Duplicate(const Duplicate&) = delete;
  Duplicate& operator=(const Duplicate&) = delete;
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

/// 0: not a socket.
std::uint64_t CookieOf(int descriptor) {
  std::uint64_t cookie = 0;
  socklen_t size = sizeof(cookie);
  return ::getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &size) == 0 ? cookie : 0;
}

std::optional<GrpcTraffic> BytesOf(int descriptor) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  GrpcTraffic traffic;
  traffic.received = info.tcpi_bytes_received;
  traffic.sent = info.tcpi_bytes_sent;
  return traffic;
}

/// The client's address and port; empty: the socket is not connected any more.
std::pair<std::string, int> PeerOf(int descriptor) {
  sockaddr_storage peer{};
  socklen_t size = sizeof(peer);
  if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return {};
  char text[INET6_ADDRSTRLEN] = {};
  if (peer.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return {text, ntohs(v4.sin_port)};
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(peer);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    ::inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof(text));
  } else {
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  }
  return {text, ntohs(v6.sin6_port)};
}

/// The answer of one of gRPC's channelz functions, which are C and render JSON.
Json Channelz(char* answer) {
  if (answer == nullptr) return Json::object();
  Json json = Json::parse(answer, nullptr, false);
  gpr_free(answer);
  return json.is_object() ? json : Json::object();
}

/// channelz writes numbers of 64 bits as text, and leaves 0 away.
std::uint64_t NumberOf(const Json& object, const char* name) {
  const auto value = object.find(name);
  if (value == object.end() || !value->is_string()) return 0;
  return std::strtoull(value->get_ref<const std::string&>().c_str(), nullptr, 10);
}

/// "chttp2 ipv6:%5B::1%5D:80" as "::1 80": the key of Connections.
std::string ClientOf(const std::string& name) {
  const std::size_t port = name.rfind(':');
  const std::size_t scheme = name.find(':');
  if (port == std::string::npos || scheme == port) return {};
  std::string address = name.substr(scheme + 1, port - scheme - 1);
  for (const char* bracket : {"%5B", "%5D", "[", "]"}) {
    const std::size_t at = address.find(bracket);
    if (at != std::string::npos) address.erase(at, std::char_traits<char>::length(bracket));
  }
  return address + ' ' + name.substr(port + 1);
}

}  // namespace

bool GrpcGuard::Admit(int descriptor, TimePoint now) {
  auto [address, port] = PeerOf(descriptor);
  const auto out = shut_out_.find(address);
  if (out != shut_out_.end()) {
    if (now < out->second) return false;
    shut_out_.erase(out);
  }
  std::string client = fmt::format("{} {}", address, port);
  connections_.insert_or_assign(std::move(client),
                                Connection{descriptor, CookieOf(descriptor), std::move(address),
                                           GrpcConduct(now), 0, 0, now});
  return true;
}

void GrpcGuard::Check(TimePoint now, const std::string& where) {
  struct Suspect {
    Connections::iterator connection;
    GrpcTraffic traffic;
  };
  std::vector<Suspect> suspects;
  for (auto it = connections_.begin(); it != connections_.end();) {
    const Duplicate socket(it->second.descriptor);
    const bool same = socket.get() >= 0 && CookieOf(socket.get()) == it->second.cookie;
    const auto traffic = same ? BytesOf(socket.get()) : std::nullopt;
    if (!traffic) {
      it = connections_.erase(it);
      continue;
    }
    if (traffic->received - it->second.checked >= kStep) suspects.push_back({it, *traffic});
    ++it;
  }
  std::ranges::sort(suspects, {}, [](const Suspect& s) { return s.connection->second.judged; });
  if (suspects.size() > kMostJudged) suspects.resize(kMostJudged);
  if (std::ranges::any_of(suspects,
                          [](const Suspect& s) { return !s.connection->second.socket; })) {
    FindSockets();
  }
  for (const Suspect& suspect : suspects) {
    auto& [client, connection] = *suspect.connection;
    const std::string_view why = Judge(connection, suspect.traffic, now);
    if (why.empty()) continue;
    if (now >= next_warning_) {
      next_warning_ = now + kWarnPeriod;
      spdlog::warn("{}: a connection of {} is closed: {}", where, connection.address, why);
    }
    ShutDown(connection);
    ShutOut(connection.address, now);
    connections_.erase(suspect.connection);
  }
  if (now >= trim_) {
    trim_ = kNoDeadline;
    ::malloc_trim(0);
  }
}

std::string_view GrpcGuard::Judge(Connection& connection, GrpcTraffic traffic, TimePoint now) {
  connection.judged = now;
  if (connection.socket == 0) return {};  // gRPC has not begun with it
  connection.checked = traffic.received;
  const Json socket = Channelz(grpc_channelz_get_socket(connection.socket));
  const Json data = socket.value("socket", Json::object()).value("data", Json::object());
  traffic.messages = NumberOf(data, "messagesReceived");
  traffic.started = NumberOf(data, "streamsStarted");
  traffic.answered = NumberOf(data, "streamsSucceeded");
  traffic.failed = NumberOf(data, "streamsFailed");
  return connection.conduct.Judge(limits_, traffic, now);
}

void GrpcGuard::ShutDown(const Connection& connection) {
  const Duplicate socket(connection.descriptor);
  if (CookieOf(socket.get()) == connection.cookie) ::shutdown(socket.get(), SHUT_RDWR);
}

void GrpcGuard::FindSockets() {
  std::intptr_t first_server = 0;
  for (bool end = false; !end;) {
    const Json servers = Channelz(grpc_channelz_get_servers(first_server));
    end = servers.value("end", true);
    for (const Json& server : servers.value("server", Json::array())) {
      const auto id =
          static_cast<std::intptr_t>(NumberOf(server.value("ref", Json::object()), "serverId"));
      first_server = id + 1;
      FindSocketsOf(id);
    }
  }
}

void GrpcGuard::FindSocketsOf(std::intptr_t server) {
  constexpr std::intptr_t kPage = 512;
  std::intptr_t& next = next_socket_[server];
  for (bool end = false; !end;) {
    const Json sockets = Channelz(grpc_channelz_get_server_sockets(server, next, kPage));
    end = sockets.value("end", true);
    for (const Json& socket : sockets.value("socketRef", Json::array())) {
      const auto id = static_cast<std::intptr_t>(NumberOf(socket, "socketId"));
      next = std::max(next, id + 1);
      const auto known = connections_.find(ClientOf(socket.value("name", "")));
      if (known != connections_.end()) known->second.socket = id;
    }
  }
}

void GrpcGuard::ShutOut(const std::string& address, TimePoint now) {
  std::erase_if(shut_out_, [&](const auto& out) { return now >= out.second; });
  if (shut_out_.size() < kMostShutOut) shut_out_[address] = now + kShutOut;
  trim_ = now + kTrimDelay;
}

}  // namespace lagoon
