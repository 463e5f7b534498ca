#pragma once

// Checks whether a request fits a model, and binds its tensors to those of the model.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/strings.h"
#include "serving/core/request.h"
#include "serving/model/signature.h"

namespace lagoon {

/// Most strings of an input. An empty string of 4 bytes takes some 100 bytes until it is answered:
/// in tables, and in an engine.
inline constexpr std::int64_t kMaxStrings = std::int64_t{1} << 22;

struct RequestBinding {
  std::vector<Dims> dims;  // by input of the signature, as the model sees it
  std::vector<std::span<const std::byte>> inputs;   // the same: the request's own bytes, or strings
  std::vector<std::vector<StringElement>> strings;  // of inputs of strings; they borrow the bytes
  /// The outputs of the answer, in order, as indexes into Signature::outputs.
  std::vector<std::size_t> outputs;
  std::vector<std::uint32_t> classes;  // for each of `outputs`: ClassView::count, or 0
  /// How many of `outputs` are for the client; those behind them are the sequence's.
  std::size_t answered = 0;
  std::vector<std::size_t> states;  // for each of SequencePlan::states, its index in `outputs`
};

/// kUnimplemented names an output whose type has no text form, if text is asked for
/// (InferRequest::form). kInvalidArgument names model, tensor and both values, for:
///
/// - an input or output that is unknown, missing or given twice;
/// - a wrong type, shape or number of bytes;
/// - an empty batch, a batch above the model's maximum, or inputs of different batches.
Result<RequestBinding> BindRequest(const InferRequest& request, const Signature& signature);

}  // namespace lagoon
