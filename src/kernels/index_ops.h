#pragma once

// Gather and scatter: elements at indices that are data. A negative index counts from the back. An
// index that is out of range reads zero, and writes nothing.

#include <cstdint>
#include <vector>

#include "kernels/kernel.h"
#include "plan/tensor.h"

namespace lagoon {

inline constexpr std::size_t kMaxIndexAxes = 8;

/// Where the entries of indices point. An entry is a tuple of `sizes.size()` neighbouring indices
/// and names a run of `run` neighbouring elements of the indexed tensor. Entry (i, j, ...) of
/// `entries` has its tuple at `index_strides` and its base in the tensor at `base_strides`; index n
/// of the tuple adds strides[n] per step and must lie below sizes[n].
struct IndexSpec {
  std::vector<std::int64_t> entries = {}, index_strides = {}, base_strides = {};
  std::vector<std::int64_t> sizes = {}, strides = {};
  std::int64_t run = 1;
  std::int64_t tensor = 0;  // elements of the indexed tensor; nothing outside is touched
  DataType index_type = DataType::kInt64;
  DataType type = DataType::kFloat32;  // of the elements
};

/// Inputs: x, indices. Output: y, the runs in the order of the entries.
Result<Kernel> MakeGather(const IndexSpec& spec);

enum class ScatterOp : std::uint8_t { kAssign, kAdd, kMul, kMin, kMax };

/// Inputs: x, indices, updates (the runs in the order of the entries). Output: y like x, the
/// updates applied in their order: each block owns a range of y and looks at all updates.
/// kUnimplemented when `op` is not defined on the type.
Result<Kernel> MakeScatter(const IndexSpec& spec, ScatterOp op);

}  // namespace lagoon
