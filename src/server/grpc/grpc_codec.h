#pragma once

#include <grpcpp/support/status.h>

#include <memory>
#include <string>

#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_message.h"
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
  SharedTensors shared = {};   // tensors that lie in shared memory, until BindRegions()
  OutputRegions regions = {};  // outputs that go to shared memory
};

/// Tensors stay in `message`, which the request's payload keeps alive; those in shared memory are
/// still to come. Errors name the input: kInvalidArgument or kUnimplemented.
Result<GrpcInfer> ParseGrpcInfer(std::shared_ptr<const InferMessage> message);
/// Copies the inputs that lie in shared memory, and finds the regions of the outputs. Errors: those
/// of SharedRegions::Bind().
Status BindRegions(const SharedRegions& regions, GrpcInfer& parsed);

/// The answer as a serialized ModelInferResponse, which owns the outputs' data. Null `stamps`: no
/// stages are reported. Outputs that `regions` has are there already. kResourceExhausted: the
/// answer is larger than any message can be. Other errors: RenderClasses().
Result<GrpcBytes> RenderGrpcInfer(InferResponse response, const EdgeStamps* stamps,
                                  const OutputRegions& regions = {});

/// A serialized ModelStreamInferResponse with this ModelInferResponse.
GrpcBytes WrapForStream(GrpcBytes answer);
/// The same with an error. Its code, which the message has no field for, is a parameter. `last`: no
/// more answers to the request follow.
GrpcBytes RenderStreamError(const Error& error, const std::string& id, bool last);

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
