#pragma once

// The general elementwise body. The output is cut into rows; a row function (row_functions.h)
// computes a piece of a row from its operands, whatever their types. This body does the
// broadcasting, the tiling and the block protocol.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/activation.h"
#include "kernels/kernel.h"

namespace lagoon {

/// `stride`: elements between neighbours of the row; 0: one element for the whole row.
struct RowOperand {
  const std::byte* data = nullptr;
  std::ptrdiff_t stride = 0;
};

/// Parameters of an op: a slope, a bound, ...
struct RowParams {
  double alpha = 0, beta = 0;
};

inline constexpr std::size_t kMaxRowOperands = 3;

/// Computes `count` neighbouring elements of y from `count` elements of each operand in x.
using RowFunction = void (*)(const RowOperand* x, std::byte* y, std::size_t count,
                             const RowParams& params);

/// How the elements of an operand lie along the axes of the output.
struct RowView {
  std::vector<std::int64_t> strides;  // in elements, one per axis; 0 broadcasts, may be negative
  std::int64_t start = 0;             // position of element 0, from the operand's pointer
  std::size_t element_bytes = 4;
};

struct RowsSpec {
  const char* name = "rows";  // name of the kernel; static storage
  RowFunction row = nullptr;
  RowParams params = {};
  std::vector<std::int64_t> out = {};  // dims of y, dense row-major
  std::size_t out_bytes = 4;           // bytes per element of y
  std::vector<RowView> inputs = {};    // 1 to kMaxRowOperands
  double ns_per_element = 1;           // including `finish`
  Finish finish = {};                  // runs after a block is written; y must be fp32
};

/// Inputs x_0, x_1, ...; output y, which must not overlap an input. kInvalidArgument if a size is
/// not positive, y is too large, or more than 8 axes remain after joining axes that all operands
/// walk alike.
Result<Kernel> MakeRows(const RowsSpec& spec);

/// The view of a dense operand of shape `dims` that broadcasts to `out` by numpy's rules. The
/// caller checks that it broadcasts; otherwise the strides are meaningless.
RowView BroadcastView(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& out,
                      std::size_t element_bytes);

}  // namespace lagoon
