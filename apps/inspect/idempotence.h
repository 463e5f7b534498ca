#pragma once

// Finds the kernels that may be killed and simply run again, and for the others the kernel from
// which to restart (REEF 4.4). The block protocol does not need this, because it never repeats a
// committed tile; engines and devices that cannot keep claims do.

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"

namespace lagoon {

/// Bytes [begin, begin + bytes) of one address space.
struct AddressRange {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
};

/// The bytes that one operation (a kernel, a copy, a memset) touches. Within an operation any read
/// may come before any write. Unless interrupted, an operation writes all of `writes`.
struct AccessSet {
  std::string name;
  std::vector<AddressRange> reads;
  std::vector<AddressRange> writes;
  /// The operation from which an engine says that this one may restart: its own number if it may
  /// simply run again. Empty: the engine says nothing.
  std::optional<std::uint32_t> restarts_from = {};
};

/// No group restores the operation, because bytes that the very first operations read are
/// overwritten.
inline constexpr std::uint32_t kNoGroup = std::numeric_limits<std::uint32_t>::max();

/// For each operation of a sequence: the first operation of the smallest group that ends with it
/// and is idempotent as a whole. If such a group is interrupted anywhere, running it again from its
/// first operation gives the same result. A group is idempotent if every byte that it both reads
/// and writes is written before it is first read. `result[i] == i`: operation i is idempotent by
/// itself.
std::vector<std::uint32_t> FindIdempotentGroups(std::span<const AccessSet> operations);

/// Checks what operations say of themselves (AccessSet::restarts_from) against what they read and
/// write. kInvalidArgument: running the operations from there to the one that says so again would
/// read bytes that they have overwritten. The message names the first such operation, these bytes,
/// and the operation from which it restarts.
Status CheckClaims(std::span<const AccessSet> operations);

/// The access sets of a plan's ops, in the order of the ops.
std::vector<AccessSet> AccessSetsOf(const Plan& plan);

/// The numbers of REEF's Table 1 and Figure 10 for one sequence.
struct IdempotenceSummary {
  std::size_t operations = 0;
  std::size_t idempotent = 0;
  std::size_t not_restorable = 0;
  std::size_t largest_group = 0;  // in operations; 1 if every operation is idempotent
};
IdempotenceSummary Summarize(std::span<const std::uint32_t> groups);

}  // namespace lagoon
