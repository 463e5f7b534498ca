#pragma once

// Messages of the Open Inference Protocol, as a client writes and reads them: inference over HTTP,
// the rest over gRPC.

#include <grpcpp/support/status.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/grpc/grpc_service.pb.h"
#include "serving/core/models.h"
#include "serving/core/request.h"

namespace lagoon {

/// The header and the JSON of the request as a POST over HTTP. The bytes of the inputs follow, in
/// order. `left`: time until the deadline; 0: there is none. `front`: the id of the server that
/// sends it on; empty: it has no fleet. The model has a name that models can have (IsModelName).
std::string RequestHead(const InferRequest& request, Nanoseconds left, std::string_view front = {});

/// Reads an answer of status 200: JSON of so many bytes, then tensors. Each tensor is copied once.
/// Parameters of the answer are dropped, and `job` and the times of plans are left empty.
/// kInternal: `body` is no such answer, or a tensor does not have the bytes that its shape needs.
Result<InferResponse> ParseAnswer(std::span<const std::byte> body,
                                  std::optional<std::size_t> json_bytes);

/// What a request has asked for. An empty version: any.
struct Asked {
  const std::string &model, &version, &id;
  std::span<const std::string> outputs;
};
/// kInternal: `response` is not of this request. Its outputs are of those that were asked for
/// (empty: any), each once.
Status CheckAnswer(const InferResponse& response, const Asked& asked);

/// kInternal: an output is not of the model, or is not as the model has it; or the answer lacks one
/// that the request names (it names none: any), unless the model is a program in Python.
/// `classified`: outputs of which the request asks for classes.
Status CheckOutputs(const InferResponse& response, const ModelMetadata& model,
                    std::span<const std::string> outputs,
                    std::span<const std::string> classified = {});

/// kUnimplemented, naming the output: an output is to be written as numbers and its type has none
/// in JSON. The last three: as in the InferRequest.
Status CheckForms(const InferResponse& response, std::span<const std::string> outputs,
                  std::span<const OutputForm> forms, OutputForm form);

/// kInternal: a tensor has no type of the protocol.
Result<ModelMetadata> ParseMetadata(const inference::ModelMetadataResponse& message);
std::vector<ModelStatistics> ParseStatistics(const inference::ModelStatisticsResponse& message);

/// The error in `status`, which is not OK. Where the reason is the connection or the member and not
/// the request, the message begins with `member`, as in "member 10.0.0.7:8001".
Error ErrorOf(const grpc::Status& status, std::string_view member);
/// The error of an answer over HTTP whose status is not 200; `member` as above.
Error ErrorOf(unsigned status, std::span<const std::byte> body, std::string_view member);

}  // namespace lagoon
