#include "server/grpc/grpc_edge.h"

#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "server/fleet/repository.h"
#include "server/grpc/grpc_service.h"
#include "server/grpc/grpc_unserved.h"

namespace lagoon {
namespace {

// A client that vanished without closing is noticed after this time and the timeout of the ping.
constexpr int kKeepaliveMs = 60'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
// The front of a fleet pings every second (RemoteOptions::ping_period). gRPC ends connections of
// clients that ping more often than this.
constexpr int kShortestPingPeriodMs = 10;
// Large enough for a tensor of some 600 KB in one piece, instead of forty frames and several rounds
// of window updates.
constexpr int kStreamWindow = 4 << 20;
constexpr int kMaxFrame = 1 << 20;
constexpr const char* kServiceName = "inference.GRPCInferenceService";

void Configure(grpc::ServerBuilder& builder, const GrpcEdge::Options& options) {
  const auto limit =
      std::min<std::size_t>(options.max_message_bytes, std::numeric_limits<int>::max());
  builder.SetMaxReceiveMessageSize(static_cast<int>(limit));
  builder.SetResourceQuota(grpc::ResourceQuota("lagoon").Resize(options.max_buffered_bytes));
  // GrpcInferCall inflates within a bound; gRPC would inflate all of a message first.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 1);  // for GrpcGuard
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options.max_calls_per_connection);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kStreamWindow);
  // Windows stay as they are, so that GrpcConduct knows what a client may send.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, kMaxFrame);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS,
                             static_cast<int>(options.handshake_timeout.count()));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS,
                             static_cast<int>(options.idle_timeout.count()));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             kShortestPingPeriodMs);
}

GrpcConduct::Limits LimitsOf(const GrpcEdge::Options& options) {
  return {static_cast<std::uint64_t>(options.max_calls_per_connection), options.max_message_bytes,
          options.max_buffered_bytes};
}

}  // namespace

GrpcEdge::GrpcEdge() = default;

GrpcEdge::~GrpcEdge() {
  if (server_ != nullptr) Stop(Now());
}

Result<std::unique_ptr<GrpcEdge>> GrpcEdge::Start(const Parts& parts, const Options& options) {
  std::unique_ptr<GrpcEdge> edge(new GrpcEdge);
  LAGOON_ASSIGN_OR_RETURN(edge->listener_, GrpcListener::Listen(parts.pool, options.address,
                                                                options.port, LimitsOf(options)));
  grpc::EnableDefaultHealthCheckService(true);
  edge->service_ = std::make_unique<GrpcService>(
      parts.core, parts.pool, parts.regions,
      GrpcService::Options{options.model_control, options.strict_readiness, options.admin,
                           options.tracing, options.id, options.http_port});
  edge->unserved_ = std::make_unique<GrpcUnserved>();
  grpc::ServerBuilder builder;
  Configure(builder, options);
  edge->acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      grpc::InsecureServerCredentials());
  builder.RegisterService(edge->service_.get());
  builder.RegisterCallbackGenericService(edge->unserved_.get());
  edge->handing_over_ = std::make_unique<IoPool>(1, "lagoon-accept");  // Stop() needs it
  edge->server_ = builder.BuildAndStart();
  if (edge->server_ == nullptr) {
    return Fail(ErrorCode::kInternal, fmt::format("gRPC {}:{}: the library did not start a server",
                                                  options.address, options.port));
  }
  auto& context = edge->handing_over_->context();
  edge->listener_->Start([&context, acceptor = edge->acceptor_.get()](int descriptor) {
    PostSurely(context.get_executor(), [acceptor, descriptor] {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.fd = descriptor;
      acceptor->HandleNewConnection(&connection);
    });
  });
  edge->SetServing(IsReady(parts.core, options.strict_readiness));
  return edge;
}

void GrpcEdge::SetServing(bool serving) {
  auto* health = server_->GetHealthCheckService();
  health->SetServingStatus(kServiceName, serving);
  health->SetServingStatus(serving);
}

void GrpcEdge::Stop(TimePoint until) {
  listener_->Close();
  handing_over_->Join();  // gRPC would not close a socket that it gets after Shutdown()
  service_->EndStreams();
  const auto left = std::max(until - Now(), Nanoseconds::zero());
  server_->Shutdown(std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::system_clock::duration>(
                        std::min<Nanoseconds>(left, std::chrono::hours(24))));
  server_->Wait();
  listener_->EndGuard();
  server_.reset();
}

}  // namespace lagoon
