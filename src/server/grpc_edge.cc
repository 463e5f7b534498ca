#include "server/grpc_edge.h"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <chrono>
#include <limits>

#include "server/grpc_service.h"

namespace lagoon {
namespace {

// A client that vanished without a word is noticed after this and its pings' timeout.
constexpr int kKeepaliveMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
// Tensors of some 600 KB arrive in one piece instead of forty frames and several rounds of window
// updates.
constexpr int kStreamWindow = 4 << 20;
constexpr int kMaxFrame = 1 << 20;
constexpr const char* kServiceName = "inference.GRPCInferenceService";

std::string Where(const GrpcEdge::Options& options) {
  return fmt::format("gRPC {}:{}", options.address, options.port);
}

// Says why a port cannot be bound, which gRPC itself only logs.
Status ProbeBind(const boost::asio::ip::address& address, const GrpcEdge::Options& options) {
  boost::asio::io_context context;
  boost::system::error_code error;
  const boost::asio::ip::tcp::endpoint endpoint(address, static_cast<std::uint16_t>(options.port));
  boost::asio::ip::tcp::acceptor acceptor(context);
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(boost::asio::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(1, error);
  if (error == boost::asio::error::address_in_use) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("{}: the port is taken by another process", Where(options)));
  }
  if (error) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: cannot listen: {}", Where(options), error.message()));
  }
  return {};
}

void Configure(grpc::ServerBuilder& builder, const GrpcEdge::Options& options) {
  const auto limit =
      std::min<std::size_t>(options.max_message_bytes, std::numeric_limits<int>::max());
  builder.SetMaxReceiveMessageSize(static_cast<int>(limit));
  builder.SetResourceQuota(grpc::ResourceQuota("lagoon").Resize(options.max_buffered_bytes));
  // A second server on the port must fail, not take half of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_calls_per_connection);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindow);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kMaxFrame);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
}

std::string ListenAddress(const boost::asio::ip::address& address, int port) {
  return address.is_v6() ? fmt::format("[{}]:{}", address.to_string(), port)
                         : fmt::format("{}:{}", address.to_string(), port);
}

}  // namespace

GrpcEdge::GrpcEdge() = default;

GrpcEdge::~GrpcEdge() {
  if (server_ != nullptr) Stop(Now());
}

Result<std::unique_ptr<GrpcEdge>> GrpcEdge::Start(InferenceCore& core, IoPool& pool,
                                                  const Options& options) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(options.address, error);
  if (error || options.port < 0 || options.port > 65535) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: not an IP address and a port from 0 to 65535", Where(options)));
  }
  LAGOON_RETURN_IF_ERROR(ProbeBind(address, options));
  grpc::EnableDefaultHealthCheckService(true);
  std::unique_ptr<GrpcEdge> edge(new GrpcEdge);
  edge->service_ = std::make_unique<GrpcService>(core, pool);
  grpc::ServerBuilder builder;
  Configure(builder, options);
  builder.AddListeningPort(ListenAddress(address, options.port), grpc::InsecureServerCredentials(),
                           &edge->port_);
  builder.RegisterService(edge->service_.get());
  edge->server_ = builder.BuildAndStart();
  if (edge->server_ == nullptr || edge->port_ == 0) {
    edge->server_.reset();
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("{}: the port was taken by another process just now", Where(options)));
  }
  edge->SetServing(core.Ready());
  return edge;
}

void GrpcEdge::SetServing(bool serving) {
  auto* health = server_->GetHealthCheckService();
  health->SetServingStatus(kServiceName, serving);
  health->SetServingStatus(serving);
}

void GrpcEdge::Stop(TimePoint until) {
  const auto left = std::max(until - Now(), Nanoseconds::zero());
  server_->Shutdown(std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::system_clock::duration>(
                        std::min<Nanoseconds>(left, std::chrono::hours(24))));
  server_->Wait();
  server_.reset();
}

}  // namespace lagoon
