#pragma once

// The general elementwise body: the output is cut into rows, and a function computes a piece of a
// row from its operands, whatever their types. What an op computes is a row function
// (row_functions.h); this body does the broadcasting, the tiling and the protocol.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/activation.h"
#include "kernels/kernel.h"

namespace lagoon {

/// `stride` is in elements, from one element of the row to the next; 0: one element for all.
struct RowOperand {
  const std::byte* data = nullptr;
  std::ptrdiff_t stride = 0;
};

/// Numbers of an op: a slope, a bound, ...
struct RowParams {
  double alpha = 0, beta = 0;
};

inline constexpr std::size_t kMaxRowOperands = 3;

/// Computes `count` neighbouring elements of y from as many elements of each operand of x.
using RowFunction = void (*)(const RowOperand* x, std::byte* y, std::size_t count,
                             const RowParams& params);

/// How an operand's elements lie, seen along the axes of the output.
struct RowView {
  std::vector<std::int64_t> strides;  // in elements, one per axis; 0 broadcasts, may be negative
  std::int64_t start = 0;             // of the first element, counted from the operand's pointer
  std::size_t element_bytes = 4;
};

struct RowsSpec {
  const char* name = "rows";  // of the kernel; static storage
  RowFunction row = nullptr;
  RowParams params = {};
  std::vector<std::int64_t> out = {};  // dims of y, dense row-major
  std::size_t out_bytes = 4;           // of an element of y
  std::vector<RowView> inputs = {};    // 1 to kMaxRowOperands
  double ns_per_element = 1;           // with `finish`
  Finish finish = {};                  // follows once a block is written; y is fp32
};

/// Inputs x_0, x_1, ...; output y; no overlap. kInvalidArgument when a size is not positive, y is
/// too large, or it has more than 8 axes after those that all operands walk alike are joined.
Result<Kernel> MakeRows(const RowsSpec& spec);

/// The view of a dense operand of shape `dims` that broadcasts to `out` as numpy does. Strides are
/// garbage if it does not: check before.
RowView BroadcastView(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& out,
                      std::size_t element_bytes);

}  // namespace lagoon
