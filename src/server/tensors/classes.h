#pragma once

// Classification: the largest elements of an output in place of the output (Triton's parameter
// `classification`).

#include <cstddef>

#include "base/status.h"
#include "serving/core/request.h"

namespace lagoon {

/// Classes of all rows of an output together.
inline constexpr std::size_t kMaxClasses = std::size_t{1} << 20;

/// Replaces each output that has `classes` by a tensor of BYTES: VALUE:NUMBER or VALUE:NUMBER:LABEL
/// for the largest elements of each row, the largest first; of equal ones the one with the lower
/// number first, and NaN last. Its shape is [rows, N], or [N] for a model without batches; N is
/// `count` or, if it is less, the number of elements of a row. kInvalidArgument: an output of
/// BYTES, or of more than kMaxClasses classes.
///
/// It reads every element, so that its time is that of a copy of the outputs.
Status RenderClasses(InferResponse& response);

}  // namespace lagoon
