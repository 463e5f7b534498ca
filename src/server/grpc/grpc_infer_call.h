#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_codec.h"
#include "server/io_pool.h"
#include "server/regions/shared_regions.h"
#include "server/stages.h"
#include "serving/core/inference.h"

namespace lagoon {

/// What the calls for inference work with. All are borrowed.
struct GrpcInferParts {
  Inference& core;
  IoPool& pool;
  SharedRegions& regions;
};

/// A request that was read from a message, and what the header of its call says.
struct GrpcAsked {
  std::string id;  // also beside an error, if the message has one
  Result<GrpcInfer> parsed;
  TimePoint received;
};

/// Reads a message. `then` is called on the call's strand, after the inputs in shared memory are
/// copied; a large copy is slow. Any thread. `head` and `regions` live until then.
GrpcReading ReadInfer(const GrpcArrived& message, const GrpcHead& head,
                      const SharedRegions& regions, std::function<void(GrpcAsked)> then);

/// Whether it takes more than a fraction of a millisecond to parse such a message.
bool IsLongToParse(std::span<const std::byte> message);

/// One ModelInfer call.
class GrpcInferCall final : public GrpcMethod, public std::enable_shared_from_this<GrpcInferCall> {
 public:
  GrpcInferCall(const GrpcInferParts& parts, std::shared_ptr<GrpcCall> call)
      : parts_(parts), call_(std::move(call)) {}

  bool IsLong(std::span<const std::byte> message) const override;
  GrpcReading Read(GrpcArrived message) override;
  void OnEnd() override;
  void OnGone() override;

 private:
  void Submit(Result<GrpcInfer> parsed, TimePoint received);
  void Give(Result<GrpcBytes> answer);
  Result<GrpcBytes> Render(Result<InferResponse> result);

  const GrpcInferParts parts_;
  const std::shared_ptr<GrpcCall> call_;
  EdgeStamps stamps_;
  bool stages_ = false;
  bool arrived_ = false;   // the message
  OutputRegions regions_;  // outputs that go to shared memory
  std::shared_ptr<MemoryCharge> charge_;
  std::optional<RequestHandle> handle_;
};

}  // namespace lagoon
