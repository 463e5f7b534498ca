#include "server/grpc/grpc_listener.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "server/descriptors.h"

namespace lagoon {
namespace {

namespace net = boost::asio;

// Most connections accepted at a time, before the pool's thread does something else.
constexpr int kAtOnce = 64;
constexpr std::chrono::milliseconds kPause{100};
constexpr std::chrono::seconds kWarnPeriod{5};

}  // namespace

GrpcListener::GrpcListener(IoPool& pool, PortChoice port, const GrpcConduct::Limits& limits)
    : port_(std::move(port)),
      descriptors_(DescriptorsForGrpc(DescriptorLimit())),
      strand_(net::make_strand(pool.context())),
      acceptor_(strand_),
      pause_(pool.context()),
      guard_(limits),
      check_(pool.context()) {}

Result<std::shared_ptr<GrpcListener>> GrpcListener::Listen(IoPool& pool, const std::string& address,
                                                           int port,
                                                           const GrpcConduct::Limits& limits) {
  std::shared_ptr<GrpcListener> listener(new GrpcListener(pool, {"gRPC", address, port}, limits));
  LAGOON_RETURN_IF_ERROR(ListenOn(listener->acceptor_, listener->port_));
  listener->where_ = listener->port_.Text();
  return listener;
}

void GrpcListener::Start(Handover handover) {
  {
    const MutexLock lock(mutex_);
    handover_ = std::move(handover);
  }
  PostSurely(strand_, [self = shared_from_this()] {
    self->Wait();
    self->Guard();
  });
}

void GrpcListener::Close() {
  {
    const MutexLock lock(mutex_);
    handover_ = nullptr;
  }
  PostSurely(strand_, [self = shared_from_this()] {
    boost::system::error_code ignored;
    self->acceptor_.close(ignored);
    self->pause_.cancel();
  });
}

void GrpcListener::EndGuard() {
  PostSurely(strand_, [self = shared_from_this()] {
    self->guards_ = false;
    self->check_.cancel();
  });
}

void GrpcListener::Wait() {
  if (!acceptor_.is_open()) return;
  acceptor_.async_wait(Acceptor::wait_read,
                       Patient([self = shared_from_this()](boost::system::error_code error) {
                         if (!error) self->AcceptSome();
                       }));
}

void GrpcListener::AcceptSome() {
  if (!acceptor_.is_open()) return;
  for (int i = 0; i < kAtOnce; ++i) {
    const int descriptor =
        ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      try {
        HandOver(descriptor);
      } catch (const std::bad_alloc&) {  // nothing else has it
        ::close(descriptor);
      }
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return Pause();
    }
  }
  Wait();
}

// Most likely no descriptor is left: trying again at once would spin.
void GrpcListener::Pause() {
  const std::error_code reason(errno, std::generic_category());
  if (Now() >= next_warning_) {
    next_warning_ = Now() + kWarnPeriod;
    spdlog::warn("{}: cannot accept a connection: {}", where_, reason.message());
  }
  WaitOn(pause_, kPause, strand_, [self = shared_from_this()] { self->AcceptSome(); });
}

void GrpcListener::Guard() {
  if (!guards_) return;
  try {
    guard_.Check(Now(), where_);
  } catch (const std::bad_alloc&) {
    spdlog::debug("{}: no memory to look at the connections", where_);
  }
  WaitOn(check_, GrpcGuard::kPeriod, strand_, [self = shared_from_this()] { self->Guard(); });
}

void GrpcListener::HandOver(int descriptor) {
  // The kernel gives the lowest free number, so at least `descriptor` descriptors are in use.
  const bool too_many = static_cast<std::size_t>(descriptor) >= descriptors_;
  if (too_many && Now() >= next_warning_) {
    next_warning_ = Now() + kWarnPeriod;
    spdlog::warn("{}: a connection is closed, {} files and sockets are in use (`ulimit -n`)",
                 where_, descriptor);
  }
  PrepareConnection(descriptor);
  const bool admitted = !too_many && guard_.Admit(descriptor, Now());
  const MutexLock lock(mutex_);
  if (!admitted || !handover_) {
    ::close(descriptor);
  } else {
    handover_(descriptor);
  }
}

}  // namespace lagoon
