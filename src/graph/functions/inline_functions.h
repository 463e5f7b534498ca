#pragma once

// Functions of a model: named groups of nodes, which nodes call as if they were ops.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/status.h"
#include "onnx/onnx_pb.h"

namespace lagoon {

/// Replaces every call of a function by the function's nodes, also in sub-graphs and in functions
/// that call functions, and drops the functions. `opset`: of ai.onnx, in the model. A node of a
/// function that imports another opset of ai.onnx gets the domain "ai.onnx@OPSET".
///
/// Names inside a function become new names. `max_bytes` limits the size of all new nodes. May
/// throw. kResourceExhausted: over that limit, more than kMaxGraphNodes nodes, or too many calls
/// inside one another. kInvalidArgument: a function that calls itself, or a call with too many
/// inputs or outputs. kUnimplemented: two functions of the same name (overloads).
Status InlineFunctions(onnx::ModelProto& model, std::int64_t opset, std::size_t max_bytes);

/// OPSET in the domain "ai.onnx@OPSET"; nothing for other domains and for opsets that Lagoon does
/// not know.
std::optional<std::int64_t> WrittenInOpset(std::string_view domain);

}  // namespace lagoon
