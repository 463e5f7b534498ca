#pragma once

// For tests: a server that sends the bytes that the test gives it, and no others.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/mutex.h"

namespace lagoon {

/// Calls `serve` with each connection, on a thread of its own, and closes the connection when
/// `serve` has returned.
class RawServer {
 public:
  class Connection {
   public:
    explicit Connection(int socket) : socket_(socket) {}
    /// What comes up to an empty line, and so many bytes behind it; empty: the end came before.
    std::string Receive(std::size_t body = 0) {
      std::size_t end = 0;
      while ((end = received_.find("\r\n\r\n")) == received_.npos ||
             received_.size() < end + 4 + body) {
        char bytes[16384];
        const ssize_t got = ::recv(socket_, bytes, sizeof(bytes), 0);
        if (got <= 0) return {};
        received_.append(bytes, static_cast<std::size_t>(got));
      }
      std::string text = received_.substr(0, end + 4 + body);
      received_.erase(0, text.size());
      return text;
    }
    /// Returns false if the other end has closed.
    bool Send(std::string_view bytes) const {
      while (!bytes.empty()) {
        const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent <= 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(sent));
      }
      return true;
    }
    /// Ends the connection at once, so that what the other end sends fails.
    void Reset() const {
      sockaddr none{};
      none.sa_family = AF_UNSPEC;
      ::connect(socket_, &none, sizeof(none));
    }
    /// Returns when the other end closes.
    void AwaitEnd() const {
      char byte = 0;
      while (::recv(socket_, &byte, 1, 0) > 0) continue;
    }

   private:
    const int socket_;
    std::string received_;
  };

  explicit RawServer(std::function<void(Connection&)> serve)
      : serve_(std::move(serve)), listener_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    socklen_t size = sizeof(address);
    LAGOON_CHECK(::bind(listener_, generic, size) == 0);
    LAGOON_CHECK(::listen(listener_, 64) == 0);
    LAGOON_CHECK(::getsockname(listener_, generic, &size) == 0);
    port_ = ntohs(address.sin_port);
    accepts_ = std::jthread([this] { Accept(); });
  }
  ~RawServer() {
    ::shutdown(listener_, SHUT_RDWR);
    accepts_.join();
    {
      const MutexLock lock(mutex_);
      for (const int socket : sockets_) ::shutdown(socket, SHUT_RDWR);
    }
    threads_.clear();
    for (const int socket : sockets_) ::close(socket);
    ::close(listener_);
  }
  RawServer(const RawServer&) = delete;
  RawServer& operator=(const RawServer&) = delete;

  std::uint16_t port() const { return port_; }
  std::size_t Connections() {
    const MutexLock lock(mutex_);
    return sockets_.size();
  }

 private:
  void Accept() {
    for (;;) {
      const int socket = ::accept(listener_, nullptr, nullptr);
      if (socket < 0) return;
      {
        const MutexLock lock(mutex_);
        sockets_.push_back(socket);
      }
      threads_.emplace_back([this, socket] {
        Connection connection(socket);
        serve_(connection);
        ::shutdown(socket, SHUT_RDWR);
      });
    }
  }

  const std::function<void(Connection&)> serve_;
  const int listener_;
  std::uint16_t port_ = 0;
  Mutex mutex_;
  std::vector<int> sockets_;           // closed at the end
  std::vector<std::jthread> threads_;  // of accepts_
  std::jthread accepts_;
};

}  // namespace lagoon
