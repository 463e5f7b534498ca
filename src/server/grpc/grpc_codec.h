#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "server/grpc/grpc_service.pb.h"
#include "server/oip_json.h"
#include "server/regions/shared_regions.h"
#include "server/stages.h"
#include "serving/core/models.h"
#include "serving/core/request.h"

namespace lagoon {

struct GrpcInfer {
  InferRequest request;  // the caller sets `arrival`
  bool stages = false;   // report Stages() as parameters
  /// The end of a decoupled model's answers is sent as a message of its own.
  bool empty_final = false;
  OutputRegions regions = {};  // outputs that go to shared memory
};

/// Tensors stay in `message`, which the request's payload keeps alive; those in shared memory are
/// copied. Errors name the input: kInvalidArgument, kUnimplemented, or those of
/// SharedRegions::Bind().
Result<GrpcInfer> ParseGrpcInfer(std::shared_ptr<const inference::ModelInferRequest> message,
                                 const SharedRegions& regions);

/// The answer as a serialized ModelInferResponse. Data of kReferredBytes or more is not copied: the
/// buffer owns the outputs. Null `stamps`: no stages are reported. Outputs that `regions` has are
/// there already. kResourceExhausted: the answer is larger than any message can be. Other errors:
/// RenderClasses().
Result<grpc::ByteBuffer> RenderGrpcInfer(InferResponse response, const EdgeStamps* stamps,
                                         const OutputRegions& regions = {});

/// A serialized ModelStreamInferResponse with this ModelInferResponse.
Result<grpc::ByteBuffer> WrapForStream(const grpc::ByteBuffer& answer);
/// The same with an error. Its code, which the message has no field for, is a parameter.
grpc::ByteBuffer RenderStreamError(const Error& error, const std::string& id);

/// A copy of fewer bytes costs less than the memory that a reference to them takes.
inline constexpr std::size_t kReferredBytes = std::size_t{16} << 10;

void FillServerMetadata(const ServedExtensions& served, inference::ServerMetadataResponse& message);
void FillModelMetadata(const ModelMetadata& model, inference::ModelMetadataResponse& message);
void FillStatistics(std::span<const ModelStatistics> models,
                    inference::ModelStatisticsResponse& message);

grpc::Status GrpcStatus(const Error& error);

/// In the metadata at the end of every ServerMetadata: the id of the server, and, if it is a front,
/// the ids of the fronts that a request to the server may come to, with commas.
inline constexpr const char* kServerKey = "lagoon-server";
inline constexpr const char* kFrontsKey = "lagoon-fronts";
/// Beside them: 16 hexadecimal digits that change when a model is loaded or unloaded.
inline constexpr const char* kModelsKey = "lagoon-models";
/// Beside them: the port of HTTP, to which a front sends requests for inference.
inline constexpr const char* kHttpPortKey = "lagoon-http-port";

}  // namespace lagoon
