#include "server/io_pool.h"

#include <fmt/format.h>

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <exception>
#include <string>

#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace lagoon {
namespace {

void Run(boost::asio::io_context& context, const std::string& name) {
  NameThisThread(name);
  for (;;) {
    try {
      context.run();
      return;
    } catch (const std::exception& e) {
      // An exception of a library left a handler (memory ran out). That connection is lost; the
      // others continue.
      spdlog::error("server: a connection was dropped: {}", e.what());
    }
  }
}

}  // namespace

// Shared with every hold, so that releasing the last hold touches nothing that the caller of Join()
// may already have destroyed.
struct IoPool::Holds {
  Mutex mutex;
  CondVar released;
  std::size_t count GUARDED_BY(mutex) = 0;
};

IoPool::IoPool(int threads, const std::string& name)
    : holds_(std::make_shared<Holds>()),
      context_(threads),
      one_by_one_(boost::asio::make_strand(context_)),
      work_(context_.get_executor()) {
  for (std::size_t i = 0; i < kStrands; ++i) strands_.push_back(boost::asio::make_strand(context_));
  try {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, name = name + "-" + std::to_string(i)] { Run(context_, name); });
    }
  } catch (...) {  // the system gives no thread more: those that run must end
    work_.reset();
    throw;
  }
}

IoPool::~IoPool() { Join(); }

const Strand& IoPool::NextStrand() {
  return strands_[next_strand_.fetch_add(1, std::memory_order_relaxed) % kStrands];
}

std::shared_ptr<void> IoPool::Hold() {
  {
    const MutexLock lock(holds_->mutex);
    ++holds_->count;  // first, because the constructor below also releases the hold where it throws
  }
  return {nullptr, [holds = holds_](std::nullptr_t) {
            const MutexLock lock(holds->mutex);
            if (--holds->count == 0) holds->released.NotifyAll();
          }};
}

void IoPool::Join() {
  {
    const MutexLock lock(holds_->mutex);
    while (holds_->count > 0) holds_->released.Wait(holds_->mutex);
  }
  work_.reset();
  threads_.clear();
}

std::string PortChoice::Text() const { return fmt::format("{} {}:{}", protocol, address, port); }

Status ListenOn(Acceptor& acceptor, PortChoice& choice) {
  namespace net = boost::asio;
  boost::system::error_code error;
  const auto refuse = [&](ErrorCode code, const std::string& why) {
    return Fail(code, fmt::format("{}: {}", choice.Text(), why));
  };
  const auto address = net::ip::make_address(choice.address, error);
  if (error) {
    return refuse(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' is not an IP address", choice.address));
  }
  if (choice.port < 0 || choice.port > 65535) {
    return refuse(ErrorCode::kInvalidArgument, "not a port, 0 to 65535 are");
  }
  const net::ip::tcp::endpoint endpoint(address, static_cast<std::uint16_t>(choice.port));
  acceptor.open(endpoint.protocol(), error);
  // Allows the port while connections of an earlier process are left on it, but not while a process
  // still listens.
  if (!error) acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(kBacklog, error);
  if (!error) acceptor.non_blocking(true, error);
  if (error == net::error::address_in_use) {
    return refuse(ErrorCode::kAlreadyExists, "the port is taken by another process");
  }
  if (error) {
    return refuse(ErrorCode::kInvalidArgument, fmt::format("cannot listen: {}", error.message()));
  }
  choice.port = acceptor.local_endpoint(error).port();
  return {};
}

}  // namespace lagoon
