#include "server/grpc/grpc_edge.h"

#include <utility>

#include "server/fleet/repository.h"
#include "server/grpc/grpc_service.h"

namespace lagoon {
namespace {

// Memory for messages that is kept for the next ones.
constexpr std::size_t kMaxRetainedBytes = std::size_t{32} << 20;
// The steps in which messages are charged.
constexpr std::size_t kChargedStep = std::size_t{8} << 10;

}  // namespace

GrpcEdge::GrpcEdge(std::unique_ptr<GrpcService> service) : service_(std::move(service)) {}

GrpcEdge::~GrpcEdge() {
  if (!stopped_) Stop(Now());
}

Result<std::unique_ptr<GrpcEdge>> GrpcEdge::Start(const GrpcInferParts& parts,
                                                  const Options& options) {
  std::unique_ptr<GrpcEdge> edge(new GrpcEdge(std::make_unique<GrpcService>(
      parts, GrpcService::Options{options.model_control, options.strict_readiness, options.admin,
                                  options.tracing, options.id, options.http_port})));
  edge->stopped_ = true;  // until it has begun
  const EdgeMemory memory{BufferPool::Create(kMaxRetainedBytes),
                          std::make_shared<MemoryBudget>(MemoryBudget::Limits{
                              options.max_buffered_bytes, /*max_holders=*/1, kChargedStep})};
  LAGOON_ASSIGN_OR_RETURN(edge->listener_,
                          GrpcListener::Listen(parts.pool, *edge->service_, memory, options.limits,
                                               {"gRPC", options.address, options.port}));
  edge->stopped_ = false;
  edge->SetServing(IsReady(parts.core, options.strict_readiness));
  edge->listener_->Start();
  return edge;
}

void GrpcEdge::SetServing(bool serving) { service_->health().Set(serving); }

void GrpcEdge::Stop(TimePoint until) {
  stopped_ = true;
  listener_->Drain();
  service_->EndStreams();
  if (!listener_->WaitIdle(until)) {
    listener_->Abort();
    listener_->WaitIdle(kNoDeadline);
  }
  listener_->Close();
}

}  // namespace lagoon
