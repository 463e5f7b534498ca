#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "server/grpc/grpc_service.pb.h"

namespace lagoon {

/// A ModelInferRequest as it arrived. Its raw_input_contents are not copied into the message: they
/// stay in the bytes that arrived, and `raws` has them in order.
struct InferMessage {
  inference::ModelInferRequest message;
  std::vector<std::span<const std::byte>> raws;
  std::shared_ptr<const void> owner;  // of the bytes
};

/// How many of a message's bytes are not in raw_input_contents: these take time to parse.
std::size_t BytesToParse(std::span<const std::byte> bytes);

/// kInvalidArgument: `bytes` are no ModelInferRequest. `owner` keeps them alive.
Result<std::shared_ptr<const InferMessage>> ReadInferMessage(std::span<const std::byte> bytes,
                                                             std::shared_ptr<const void> owner);

}  // namespace lagoon
