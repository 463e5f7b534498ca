#include "server/http/http_listener.h"

#include <fmt/format.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/log.h"

namespace lagoon {
namespace {

namespace net = boost::asio;

// The longest delay until a timeout is noticed.
constexpr std::chrono::milliseconds kSweepPeriod{100};
constexpr std::chrono::milliseconds kRetryPeriod{100};
// Time between two warnings, so that a flood of connections is no flood of log lines.
constexpr std::chrono::seconds kWarnPeriod{5};

}  // namespace

HttpListener::HttpListener(IoPool& pool, HttpHandler& handler, EdgeMemory memory, Options options)
    : pool_(pool),
      handler_(handler),
      memory_(std::move(memory)),
      options_(std::move(options)),
      strand_(net::make_strand(pool.context())),
      acceptor_(strand_),
      retry_timer_(pool.context()),
      sweep_timer_(pool.context()),
      warning_(kWarnPeriod) {}

Result<std::shared_ptr<HttpListener>> HttpListener::Listen(IoPool& pool, HttpHandler& handler,
                                                           EdgeMemory memory, Options options) {
  std::shared_ptr<HttpListener> listener(
      new HttpListener(pool, handler, std::move(memory), std::move(options)));
  LAGOON_RETURN_IF_ERROR(ListenOn(listener->acceptor_, listener->options_.port));
  return listener;
}

void HttpListener::Start() {
  net::post(strand_, [self = shared_from_this()] {
    self->Accept();
    self->Sweep();
  });
}

void HttpListener::Accept() {
  if (Closing() || accepting_) return;
  accepting_ = true;
  acceptor_.async_accept(
      net::make_strand(pool_.context()),
      [self = shared_from_this()](boost::system::error_code error, Socket socket) {
        self->OnAccepted(error, std::move(socket));
      });
}

void HttpListener::OnAccepted(boost::system::error_code error, Socket socket) {
  accepting_ = false;
  const bool failed =
      error && error != net::error::connection_aborted && error != net::error::operation_aborted;
  if (failed && !Closing()) {
    if (warning_.Due(Now())) {
      spdlog::warn(
          "{}: cannot accept a connection: {}; the process may have {} files and sockets "
          "(`ulimit -n`)",
          options_.port.Text(), error.message(), DescriptorLimit());
    }
    if (error != net::error::no_descriptors || !TurnAwayWithoutDescriptor()) return RetryAccept();
  }
  try {
    if (!error) Admit(std::move(socket));
  } catch (const std::exception& e) {
    spdlog::error("{}: a connection was dropped: {}", options_.port.Text(), e.what());
  }
  if (Closing()) return ClosePort();
  Accept();
}

// Returns false if nothing was accepted; trying again at once would spin.
bool HttpListener::TurnAwayWithoutDescriptor() {
  if (!spare_.Take()) return false;
  spare_.Give();
  boost::system::error_code error;
  Socket socket(net::make_strand(pool_.context()));
  acceptor_.accept(socket, error);
  if (!error) TurnAway(socket, "the server has no descriptor for another connection");
  socket.close(error);
  spare_.Take();
  return !error;
}

void HttpListener::RetryAccept() {
  retry_timer_.expires_after(kRetryPeriod);
  retry_timer_.async_wait(
      net::bind_executor(strand_, [self = shared_from_this()](boost::system::error_code error) {
        if (!error) self->Accept();
      }));
}

void HttpListener::TurnAway(Socket& socket, const std::string& reason) {
  // The answer fits into any socket's buffer, so that writing cannot block. Best effort: the close
  // may reset the connection before the client has read the answer.
  const HttpResponse full = HttpResponse::Failure(503, reason);
  boost::system::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(net::buffer(RenderHead(full, false) + full.text), ignored);
}

void HttpListener::Admit(Socket socket) {
  bool full = false;
  {
    MutexLock lock(mutex_);
    full = alive_ >= options_.limits.max_connections;
  }
  if (full) {
    return TurnAway(
        socket, fmt::format("{} connections are open, the limit", options_.limits.max_connections));
  }
  auto connection = std::make_shared<HttpConnection>(
      std::move(socket), HttpConnection::Context{handler_, options_.limits, options_.hosts, memory_,
                                                 shared_from_this(), options_.low});
  {
    MutexLock lock(mutex_);
    connections_.push_back(connection);
  }
  connection->Start();
}

void HttpListener::ConnectionBegan() {
  MutexLock lock(mutex_);
  ++alive_;
}

void HttpListener::ConnectionEnded() {
  MutexLock lock(mutex_);
  if (--alive_ == 0) idle_.NotifyAll();
}

std::vector<std::shared_ptr<HttpConnection>> HttpListener::Connections() {
  std::vector<std::shared_ptr<HttpConnection>> alive;
  MutexLock lock(mutex_);
  std::erase_if(connections_, [&](const std::weak_ptr<HttpConnection>& weak) {
    auto connection = weak.lock();
    if (connection == nullptr) return true;
    alive.push_back(std::move(connection));
    return false;
  });
  return alive;
}

void HttpListener::Sweep() {
  if (!acceptor_.is_open() && WaitIdle(TimePoint::min())) return;
  const TimePoint now = Now();
  for (const auto& connection : Connections()) connection->CheckDeadline(now);
  sweep_timer_.expires_after(kSweepPeriod);
  sweep_timer_.async_wait(
      net::bind_executor(strand_, [self = shared_from_this()](boost::system::error_code error) {
        if (!error) self->Sweep();
      }));
}

void HttpListener::AnnounceEnd() { draining_.store(true, std::memory_order_relaxed); }

void HttpListener::Drain() {
  AnnounceEnd();
  closing_.store(true, std::memory_order_relaxed);
  net::post(strand_, [self = shared_from_this()] {
    boost::system::error_code ignored;
    // If an accept has succeeded already, its connection still goes to OnAccepted.
    if (self->accepting_) self->acceptor_.cancel(ignored);
    if (!self->accepting_) self->ClosePort();
  });
}

void HttpListener::ClosePort() {
  if (!acceptor_.is_open()) return;
  AcceptBacklog();
  for (const auto& connection : Connections()) connection->Drain();
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  MutexLock lock(mutex_);
  open_ = false;
  idle_.NotifyAll();
}

// Accepts the connections that the kernel has already made: closing the port would reset them.
void HttpListener::AcceptBacklog() {
  for (int i = 0; i < kBacklog; ++i) {
    boost::system::error_code error;
    Socket socket(net::make_strand(pool_.context()));
    acceptor_.accept(socket, error);
    if (error) return;
    Admit(std::move(socket));
  }
}

void HttpListener::Abort() {
  for (const auto& connection : Connections()) connection->Abort();
}

void HttpListener::Close() {
  net::post(strand_, [self = shared_from_this()] {
    self->retry_timer_.cancel();
    self->sweep_timer_.cancel();
  });
}

bool HttpListener::WaitIdle(TimePoint until) {
  MutexLock lock(mutex_);
  while (open_ || alive_ > 0) {
    if (Now() >= until) return false;
    if (until == kNoDeadline) {
      idle_.Wait(mutex_);
    } else {
      idle_.WaitUntil(mutex_, until);
    }
  }
  return true;
}

}  // namespace lagoon
