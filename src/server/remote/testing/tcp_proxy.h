#pragma once

// For tests: a proxy between two ends of TCP, which can become silent.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"

namespace lagoon {

/// Passes bytes between its port and `to`, a port of this machine, until it is told not to: the
/// connections stay open then, and what comes in is dropped.
class TcpProxy {
 public:
  explicit TcpProxy(int to) : to_(to), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = Local(0);
    LAGOON_CHECK(::bind(listener_, Generic(address), sizeof(address)) == 0);
    LAGOON_CHECK(::listen(listener_, 16) == 0);
    socklen_t size = sizeof(address);
    LAGOON_CHECK(::getsockname(listener_, Generic(address), &size) == 0);
    port_ = ntohs(address.sin_port);
    accepts_ = std::jthread([this] { Accept(); });
  }
  ~TcpProxy() {
    ::shutdown(listener_, SHUT_RDWR);
    accepts_.join();
    const MutexLock lock(mutex_);
    for (const auto& pair : pairs_) {
      ::shutdown(pair->client, SHUT_RDWR);
      ::shutdown(pair->server, SHUT_RDWR);
      pair->up.join();
      pair->down.join();
      ::close(pair->client);
      ::close(pair->server);
    }
    ::close(listener_);
  }
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  int port() const { return port_; }
  /// The connection with the most bytes from its client is silent from now on, and so are those
  /// that come later.
  void Silence() {
    const MutexLock lock(mutex_);
    LAGOON_CHECK(!pairs_.empty());
    Busiest().silent = true;
    silent_ = true;
  }
  /// Connections that come later are not silent.
  void Speak() { silent_ = false; }

 private:
  struct Pair {
    int client = -1, server = -1;
    std::atomic<std::size_t> bytes{0};  // from the client
    std::atomic<bool> silent{false};
    std::jthread up, down;
  };

  static sockaddr_in Local(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    return address;
  }
  static sockaddr* Generic(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }
  Pair& Busiest() REQUIRES(mutex_) {
    return **std::ranges::max_element(pairs_, {}, [](const auto& pair) { return +pair->bytes; });
  }
  void Accept() {
    for (;;) {
      const int client = ::accept(listener_, nullptr, nullptr);
      if (client < 0) return;
      auto pair = std::make_unique<Pair>();
      pair->client = client;
      pair->server = ::socket(AF_INET, SOCK_STREAM, 0);
      pair->silent = silent_.load();
      sockaddr_in address = Local(to_);
      LAGOON_CHECK(::connect(pair->server, Generic(address), sizeof(address)) == 0);
      Pair& ends = *pair;
      ends.up = std::jthread([&ends] { Pass(ends, ends.client, ends.server, /*up=*/true); });
      ends.down = std::jthread([&ends] { Pass(ends, ends.server, ends.client, /*up=*/false); });
      const MutexLock lock(mutex_);
      pairs_.push_back(std::move(pair));
    }
  }
  static void Pass(Pair& pair, int from, int to, bool up) {
    std::array<std::byte, 65536> buffer;
    for (;;) {
      const ssize_t got = ::recv(from, buffer.data(), buffer.size(), 0);
      if (got <= 0) break;
      if (up) pair.bytes += static_cast<std::size_t>(got);
      for (ssize_t sent = 0; sent < got && !pair.silent;) {
        const ssize_t now = ::send(to, buffer.data() + sent, got - sent, MSG_NOSIGNAL);
        if (now <= 0) break;
        sent += now;
      }
    }
    if (!pair.silent) ::shutdown(to, SHUT_RDWR);
  }

  const int to_, listener_;
  int port_ = 0;
  std::atomic<bool> silent_{false};
  Mutex mutex_;
  std::vector<std::unique_ptr<Pair>> pairs_ GUARDED_BY(mutex_);
  std::jthread accepts_;
};

}  // namespace lagoon
