#pragma once

// Which kernels may be killed and simply run again, and from where to restart those that may not
// (REEF 4.4). The block protocol does not need it, since it never repeats a committed tile; engines
// and devices that cannot keep claims do.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace lagoon {

/// Bytes [begin, begin + bytes) of one address space.
struct AddressRange {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

/// What one operation (a kernel, a copy, a memset) touches. Within an operation every read may come
/// before every write. `writes` are written whole, except after an interruption.
struct AccessSet {
  std::string name;
  std::vector<AddressRange> reads;
  std::vector<AddressRange> writes;
};

/// No group restores the operation: something that the very first operations read is overwritten.
inline constexpr std::uint32_t kNoGroup = std::numeric_limits<std::uint32_t>::max();

/// For each operation of a sequence, the first one of the smallest group that ends with it and is
/// idempotent as a whole: wherever it is interrupted, running it from its first operation gives the
/// same result. A group is idempotent when every byte that it writes was written before it was
/// first read. `result[i] == i`: operation i is idempotent by itself.
std::vector<std::uint32_t> FindIdempotentGroups(std::span<const AccessSet> operations);

/// The access sets of a plan's ops, in their order.
std::vector<AccessSet> AccessSetsOf(const Plan& plan);

/// REEF's Table 1 and Figure 10 for one sequence.
struct IdempotenceSummary {
  std::size_t operations = 0;
  std::size_t idempotent = 0;
  std::size_t not_restorable = 0;
  std::size_t largest_group = 0;  // operations in it; 1 when every operation is idempotent
};
IdempotenceSummary Summarize(std::span<const std::uint32_t> groups);

}  // namespace lagoon
