#include "apps/inspect/idempotence.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/icl/interval_set.hpp>

#include "base/check.h"

namespace lagoon {
namespace {

using Bytes = boost::icl::interval_set<std::uint64_t>;

// Weights and arena are separate address spaces; a plan needs far less than this of each.
constexpr std::uint64_t kWeightsBase = std::uint64_t{1} << 62;

Bytes Union(std::span<const AddressRange> ranges) {
  Bytes bytes;
  for (const AddressRange& range : ranges) {
    bytes +=
        boost::icl::interval<std::uint64_t>::right_open(range.begin, range.begin + range.bytes);
  }
  return bytes;
}

// A group of consecutive operations that grows towards the front.
class Group {
 public:
  void Prepend(const Bytes& reads, const Bytes& writes) {
    inputs_ -= writes;
    inputs_ += reads;
    outputs_ += writes;
  }
  bool Idempotent() const { return !boost::icl::intersects(inputs_, outputs_); }
  /// The first bytes that the group reads and then overwrites. The group must not be idempotent.
  AddressRange Overwritten() const {
    const auto range = *(inputs_ & outputs_).begin();
    const std::uint64_t first = boost::icl::first(range);
    return {first, boost::icl::last(range) - first + 1};
  }

 private:
  Bytes inputs_;  // read before the group itself writes them
  Bytes outputs_;
};

AddressRange AddressOf(const ByteRange& range) {
  LAGOON_CHECK(range.offset + range.bytes < kWeightsBase);
  return {(range.region == Region::kWeights ? kWeightsBase : 0) + range.offset, range.bytes};
}

std::vector<AddressRange> AddressesOf(std::span<const ByteRange> ranges) {
  std::vector<AddressRange> addresses;
  for (const ByteRange& range : ranges) addresses.push_back(AddressOf(range));
  return addresses;
}

}  // namespace

std::vector<std::uint32_t> FindIdempotentGroups(std::span<const AccessSet> operations) {
  std::vector<Bytes> reads, writes;
  for (const AccessSet& operation : operations) {
    reads.push_back(Union(operation.reads));
    writes.push_back(Union(operation.writes));
  }
  std::vector<std::uint32_t> first(operations.size(), kNoGroup);
  for (std::uint32_t last = 0; last < operations.size(); ++last) {
    Group group;
    for (std::uint32_t i = last + 1; i-- > 0 && first[last] == kNoGroup;) {
      group.Prepend(reads[i], writes[i]);
      if (group.Idempotent()) first[last] = i;
    }
  }
  return first;
}

Status CheckClaims(std::span<const AccessSet> operations) {
  for (std::uint32_t last = 0; last < operations.size(); ++last) {
    const AccessSet& operation = operations[last];
    if (!operation.restarts_from) continue;
    const std::uint32_t claimed = *operation.restarts_from;
    const std::string says = fmt::format(
        "operation {} '{}' says that it restarts from operation {}", last, operation.name, claimed);
    if (claimed > last) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}, which comes after it: name one from 0 to {}", says, last));
    }
    Group group;
    std::optional<std::uint32_t> first;  // of the smallest group
    for (std::uint32_t i = last + 1; i-- > claimed;) {
      group.Prepend(Union(operations[i].reads), Union(operations[i].writes));
      if (!first && group.Idempotent()) first = i;
    }
    if (group.Idempotent()) continue;
    const AddressRange bytes = group.Overwritten();
    for (std::uint32_t i = claimed; i-- > 0 && !first;) {
      group.Prepend(Union(operations[i].reads), Union(operations[i].writes));
      if (group.Idempotent()) first = i;
    }
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}, but these operations read bytes {} to {} and overwrite them: it "
                            "restarts from {}",
                            says, bytes.begin, bytes.begin + bytes.bytes - 1,
                            first ? fmt::format("operation {}", *first) : "nowhere"));
  }
  return {};
}

std::vector<AccessSet> AccessSetsOf(const Plan& plan) {
  std::vector<AccessSet> sets;
  for (const PlanOp& op : plan.ops) {
    sets.push_back({op.name, AddressesOf(op.reads), AddressesOf(op.writes)});
  }
  return sets;
}

IdempotenceSummary Summarize(std::span<const std::uint32_t> groups) {
  IdempotenceSummary summary;
  summary.operations = groups.size();
  for (std::uint32_t i = 0; i < groups.size(); ++i) {
    if (groups[i] == kNoGroup) {
      ++summary.not_restorable;
      continue;
    }
    if (groups[i] == i) ++summary.idempotent;
    summary.largest_group = std::max<std::size_t>(summary.largest_group, i - groups[i] + 1);
  }
  return summary;
}

}  // namespace lagoon
