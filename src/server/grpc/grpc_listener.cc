#include "server/grpc/grpc_listener.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "base/log.h"
#include "server/descriptors.h"

namespace lagoon {
namespace {

constexpr std::chrono::seconds kShutOut{1};
constexpr std::size_t kMostShutOut = 1024;
constexpr std::chrono::seconds kWarnPeriod{5};

}  // namespace

GrpcListener::GrpcListener(IoPool& pool, GrpcHandler& handler, EdgeMemory memory,
                           const GrpcLimits& limits, PortChoice port)
    : GrpcOwner(pool, std::move(port)),
      pool_(pool),
      handler_(handler),
      memory_(std::move(memory)),
      inflates_(std::make_shared<InflateQueue>(pool)),
      limits_(limits),
      descriptors_(DescriptorsForGrpc(DescriptorLimit())),
      warning_(kWarnPeriod) {}

Result<std::shared_ptr<GrpcListener>> GrpcListener::Listen(IoPool& pool, GrpcHandler& handler,
                                                           EdgeMemory memory,
                                                           const GrpcLimits& limits,
                                                           PortChoice port) {
  std::shared_ptr<GrpcListener> listener(
      new GrpcListener(pool, handler, std::move(memory), limits, std::move(port)));
  LAGOON_RETURN_IF_ERROR(listener->Bind());
  return listener;
}

std::optional<std::string> GrpcListener::Full(const Socket& socket, std::size_t /*alive*/) {
  boost::system::error_code error;
  const auto peer = socket.remote_endpoint(error);
  const MutexLock lock(mutex_);
  const auto out = error ? shut_out_.end() : shut_out_.find(peer.address());
  if (out != shut_out_.end()) {
    if (Now() < out->second) return "its address was cut off a moment ago";
    shut_out_.erase(out);
  }
  // The kernel gives the lowest free number, so at least that many descriptors are in use.
  const int descriptor = const_cast<Socket&>(socket).native_handle();
  if (static_cast<std::size_t>(descriptor) < descriptors_) return std::nullopt;
  return fmt::format("{} files and sockets are in use (`ulimit -n`)", descriptor);
}

void GrpcListener::TurnAway(Socket& /*socket*/, const std::string& reason) {
  const MutexLock lock(mutex_);
  if (warning_.Due(Now())) spdlog::warn("gRPC: a connection is not accepted: {}", reason);
}

std::shared_ptr<EdgeConnection> GrpcListener::Connect(Socket socket) {
  return std::make_shared<GrpcConnection>(
      std::move(socket),
      GrpcConnection::Context{handler_, limits_, memory_, pool_.one_by_one(), *inflates_,
                              std::static_pointer_cast<GrpcListener>(shared_from_this())});
}

void GrpcListener::OnCutOff(const Address& address, std::string_view why) {
  const TimePoint now = Now();
  const MutexLock lock(mutex_);
  if (warning_.Due(now)) {
    spdlog::warn("gRPC: a connection of {} is closed: {}", address.to_string(), why);
  }
  std::erase_if(shut_out_, [&](const auto& out) { return now >= out.second; });
  if (shut_out_.size() < kMostShutOut) shut_out_[address] = now + kShutOut;
}

}  // namespace lagoon
