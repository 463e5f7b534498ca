#pragma once

// Gather and scatter: read and write elements at indices that are tensor data. A negative index
// counts from the end. An index out of range reads zero and writes nothing.

#include <cstdint>
#include <vector>

#include "kernels/kernel.h"
#include "plan/tensor.h"

namespace lagoon {

inline constexpr std::size_t kMaxIndexAxes = 16;

/// How indices map to elements. An entry is a tuple of `sizes.size()` neighbouring indices; it
/// selects a run of `run` neighbouring elements of the indexed tensor. The entries form an array of
/// shape `entries`. For entry (i, j, ...):
/// - the tuple lies at offset i * index_strides[0] + j * index_strides[1] + ... in the indices;
/// - the run starts at element i * base_strides[0] + j * base_strides[1] + ...
///   + tuple[0] * strides[0] + tuple[1] * strides[1] + ... of the tensor;
/// - tuple[n] must be below sizes[n].
/// Example: ONNX Gather of x [5, 7] on axis 0 with 3 indices has entries {3}, index_strides {1},
/// base_strides {0}, sizes {5}, strides {7}, run 7 and tensor 35.
struct IndexSpec {
  std::vector<std::int64_t> entries = {}, index_strides = {}, base_strides = {};
  std::vector<std::int64_t> sizes = {}, strides = {};
  std::int64_t run = 1;
  std::int64_t tensor = 0;  // number of elements of the indexed tensor; no access is outside
  DataType index_type = DataType::kInt64;
  DataType type = DataType::kFloat32;  // type of the elements
};

/// Inputs: x, indices. Output: y, the runs in the order of the entries.
Result<Kernel> MakeGather(const IndexSpec& spec);

enum class ScatterOp : std::uint8_t { kAssign, kAdd, kMul, kMin, kMax };

/// Number of neighbouring entries that MakeScatterTargets() bounds together.
inline constexpr std::size_t kScatterChunk = 64;

/// Where the runs of MakeScatter() begin. Input: indices. Outputs, both int64: `targets`, the first
/// element of each entry's run, -1 if an index is out of range; and `bounds` [chunks, 2], the least
/// target and the end of the last run of every kScatterChunk entries (without valid ones, the end
/// is 0).
Result<Kernel> MakeScatterTargets(const IndexSpec& spec);

/// Inputs: x, targets and bounds of MakeScatterTargets(), updates (the runs in the order of the
/// entries). Output: y, a copy of x to which the updates are applied in order. Each block owns a
/// range of y, and reads the targets of the chunks that reach it. kUnimplemented if `op` is not
/// defined on the type.
Result<Kernel> MakeScatter(const IndexSpec& spec, ScatterOp op);

}  // namespace lagoon
