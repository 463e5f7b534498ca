#pragma once

// Kernels that choose elements, so that the shape of their output depends on data. The output lies
// row-major for its actual dims at the start of its memory, which is large enough for every choice;
// the memory behind it is undefined. The output `sizes` (INT64) has the actual dims.

#include <cstdint>
#include <vector>

#include "kernels/kernel.h"
#include "plan/tensor.h"

namespace lagoon {

inline constexpr std::size_t kMaxSelectAxes = 8;
/// Most elements of a condition, or of the input of NonZero.
inline constexpr std::size_t kMaxConditions = std::size_t{1} << 25;
/// The elements are counted in pieces of this length.
inline constexpr std::size_t kCountPiece = 2048;

/// Input x of `count` elements; output counts (INT64), how many elements of each piece are not
/// zero: [ceil(count / kCountPiece)].
struct CountTrueSpec {
  std::size_t count = 1;
  DataType type = DataType::kBool;
};
Result<Kernel> MakeCountTrue(const CountTrueSpec& spec);

/// Inputs x and counts; outputs y (INT64) [max(rank, 1), found] and sizes [2]: the indices of the
/// elements that are not zero, in their order, one per column.
struct NonZeroSpec {
  std::vector<std::int64_t> dims = {};  // of x
  DataType type = DataType::kFloat32;
};
Result<Kernel> MakeNonZero(const NonZeroSpec& spec);

/// Inputs x, condition (BOOL) and its counts; outputs y and sizes [rank]. y has those entries of
/// the axis `axis` of x for which the condition is true. The condition has `length` elements, at
/// most as many as the axis.
struct CompressSpec {
  std::vector<std::int64_t> dims = {};  // of x
  std::size_t axis = 0, length = 1;
  std::size_t element_bytes = 4;
};
Result<Kernel> MakeCompress(const CompressSpec& spec);

/// The items are the parts of x [outer, items, inner] along its middle axis. NaN is equal to NaN,
/// and greater than any other number.
struct UniqueSpec {
  std::size_t outer = 1, items = 1, inner = 1;
  DataType type = DataType::kFloat32;
  bool sorted = true;                   // otherwise in the order of their first occurrence
  std::vector<std::int64_t> dims = {};  // of y, for its sizes; the axis `axis` is replaced
  std::size_t axis = 0;
};
/// Most items, because a single unit sorts them.
inline constexpr std::size_t kMaxUniqueItems = std::size_t{1} << 16;

/// Input x; output order (INT32) [items]: the items sorted, equal ones in the order of their
/// places.
Result<Kernel> MakeUniqueOrder(const UniqueSpec& spec);
/// Inputs x and order; outputs (INT64): the places of the first occurrences, for each item the
/// index of its unique one, the number of occurrences, and the sizes of y and of the lists.
Result<Kernel> MakeUniqueGroups(const UniqueSpec& spec);
/// Inputs x, the places of the first occurrences, and the size of that list. Output y.
Result<Kernel> MakeUniqueTake(const UniqueSpec& spec);

}  // namespace lagoon
