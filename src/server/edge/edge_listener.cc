#include "server/edge/edge_listener.h"

#include <fmt/format.h>

#include <utility>

#include "base/guard.h"
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

EdgeListener::EdgeListener(IoPool& pool, PortChoice port)
    : pool_(pool),
      port_(std::move(port)),
      strand_(net::make_strand(pool.context())),
      acceptor_(strand_),
      retry_timer_(pool.context()),
      sweep_timer_(pool.context()),
      warning_(kWarnPeriod) {}

Status EdgeListener::Bind() { return ListenOn(acceptor_, port_); }

void EdgeListener::Start() {
  PostSurely(strand_, [self = shared_from_this()] {
    self->Accept();
    self->Sweep();
  });
}

void EdgeListener::Accept() {
  if (Closing() || accepting_) return;
  accepting_ = true;
  // Not async_accept(): it ends without a word where memory for the new socket runs out.
  acceptor_.async_wait(Acceptor::wait_read,
                       Patient([self = shared_from_this()](boost::system::error_code error) {
                         self->OnWaiting(error);
                       }));
}

void EdgeListener::OnWaiting(boost::system::error_code error) {
  accepting_ = false;
  bool again = true;
  try {
    if (!error) again = AcceptOne();
  } catch (const std::bad_alloc&) {  // that connection is closed
    again = false;
  }
  if (Closing()) return ClosePort();
  again ? Accept() : RetryAccept();
}

// Returns false where trying again at once would spin.
bool EdgeListener::AcceptOne() {
  boost::system::error_code error;
  Socket socket(pool_.NextStrand());
  acceptor_.accept(socket, error);
  if (!error) {
    Admit(std::move(socket));
    return true;
  }
  if (error == net::error::would_block || error == net::error::connection_aborted) return true;
  if (warning_.Due(Now())) {
    spdlog::warn(
        "{}: cannot accept a connection: {}; the process may have {} files and sockets "
        "(`ulimit -n`)",
        port_.Text(), error.message(), DescriptorLimit());
  }
  return error == net::error::no_descriptors && TurnAwayWithoutDescriptor();
}

// Returns false if nothing was accepted; trying again at once would spin.
bool EdgeListener::TurnAwayWithoutDescriptor() {
  if (!spare_.Take()) return false;
  spare_.Give();
  boost::system::error_code error;
  Socket socket(pool_.NextStrand());
  acceptor_.accept(socket, error);
  if (!error) TurnAway(socket, "the server has no descriptor for another connection");
  socket.close(error);
  spare_.Take();
  return !error;
}

void EdgeListener::RetryAccept() {
  WaitOn(retry_timer_, kRetryPeriod, strand_, [self = shared_from_this()] { self->Accept(); });
}

void EdgeListener::Admit(Socket socket) {
  std::size_t alive = 0;
  {
    MutexLock lock(mutex_);
    alive = alive_;
  }
  if (const auto reason = Full(socket, alive)) return TurnAway(socket, *reason);
  const auto connection = Connect(std::move(socket));
  {
    MutexLock lock(mutex_);
    connections_.push_back(connection);
  }
  connection->Start();
}

void EdgeListener::ConnectionBegan() {
  MutexLock lock(mutex_);
  ++alive_;
}

void EdgeListener::ConnectionEnded() {
  MutexLock lock(mutex_);
  if (--alive_ == 0) idle_.NotifyAll();
}

std::vector<std::shared_ptr<EdgeConnection>> EdgeListener::Connections() {
  std::vector<std::shared_ptr<EdgeConnection>> alive;
  MutexLock lock(mutex_);
  std::erase_if(connections_, [](const auto& weak) { return weak.expired(); });
  alive.reserve(connections_.size());
  for (const std::weak_ptr<EdgeConnection>& weak : connections_) {
    if (auto connection = weak.lock()) alive.push_back(std::move(connection));
  }
  return alive;
}

void EdgeListener::Sweep() {
  if (!acceptor_.is_open() && WaitIdle(TimePoint::min())) return;
  try {
    const TimePoint now = Now();
    for (const auto& connection : Connections()) connection->CheckDeadline(now);
  } catch (const std::bad_alloc&) {
    spdlog::debug("{}: no memory to look at the connections", port_.protocol);
  }
  WaitOn(sweep_timer_, kSweepPeriod, strand_, [self = shared_from_this()] { self->Sweep(); });
}

void EdgeListener::AnnounceEnd() { draining_.store(true, std::memory_order_relaxed); }

void EdgeListener::Drain() {
  AnnounceEnd();
  closing_.store(true, std::memory_order_relaxed);
  PostSurely(strand_, [self = shared_from_this()] {
    boost::system::error_code ignored;
    // If an accept has succeeded already, its connection is still admitted.
    if (self->accepting_) self->acceptor_.cancel(ignored);
    if (!self->accepting_) self->ClosePort();
  });
}

void EdgeListener::ClosePort() {
  if (!acceptor_.is_open()) return;
  try {
    AcceptBacklog();
  } catch (const std::bad_alloc&) {  // then the close resets those that are left
    spdlog::warn("{}: memory ran out", port_.protocol);
  }
  const auto alive = UntilMemorySuffices([this] { return Connections(); });
  for (const auto& connection : alive) connection->Drain();
  boost::system::error_code ignored;
  acceptor_.close(ignored);
  MutexLock lock(mutex_);
  open_ = false;
  idle_.NotifyAll();
}

// Accepts the connections that the kernel has already made: closing the port would reset them.
void EdgeListener::AcceptBacklog() {
  for (int i = 0; i < kBacklog; ++i) {
    boost::system::error_code error;
    Socket socket(pool_.NextStrand());
    acceptor_.accept(socket, error);
    if (error) return;
    Admit(std::move(socket));
  }
}

void EdgeListener::Abort() {
  const auto alive = UntilMemorySuffices([this] { return Connections(); });
  for (const auto& connection : alive) connection->Abort();
}

void EdgeListener::Close() {
  PostSurely(strand_, [self = shared_from_this()] {
    self->retry_timer_.cancel();
    self->sweep_timer_.cancel();
  });
}

bool EdgeListener::WaitIdle(TimePoint until) {
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
