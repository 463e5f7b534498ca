#include "program/split/split_model.h"

#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace lagoon {
namespace {

/// Bytes of the arena that one op has written, by their first byte.
struct Value {
  std::size_t end = 0;          // offset behind the last byte
  std::uint32_t first_cut = 0;  // the first position behind the writer; 0: given as an input
  std::uint32_t last_cut = 0;   // the last position before a reader
  bool read = false;
};

/// Follows the contents of the arena while the ops run in order.
class ArenaValues {
 public:
  explicit ArenaValues(std::size_t ops) : crossing_(ops + 1) {}

  void Write(const ByteRange& range, std::uint32_t first_cut) {
    if (range.region != Region::kArena || range.bytes == 0) return;
    const std::size_t end = range.offset + range.bytes;
    SplitAt(range.offset);
    SplitAt(end);
    const auto from = values_.lower_bound(range.offset);
    auto to = from;
    for (; to != values_.end() && to->first < end; ++to) Count(to->first, to->second);
    values_.erase(from, to);
    values_[range.offset] = {.end = end, .first_cut = first_cut};
  }

  void Read(const ByteRange& range, std::uint32_t op) {
    if (range.region != Region::kArena || range.bytes == 0) return;
    const std::size_t end = range.offset + range.bytes;
    SplitAt(range.offset);
    SplitAt(end);
    for (auto at = values_.lower_bound(range.offset); at != values_.end() && at->first < end;
         ++at) {
      at->second.last_cut = op;
      at->second.read = true;
    }
  }

  std::vector<double> Finish() {
    for (const auto& [offset, value] : values_) Count(offset, value);
    // So far the differences from one position to the next.
    double bytes = 0;
    for (double& at : crossing_) at = bytes += at;
    return std::move(crossing_);
  }

 private:
  /// Cuts the value that has bytes on both sides of `offset`.
  void SplitAt(std::size_t offset) {
    auto at = values_.upper_bound(offset);
    if (at == values_.begin()) return;
    --at;
    if (at->first == offset || at->second.end <= offset) return;
    Value rest = at->second;
    at->second.end = offset;
    values_.emplace(offset, rest);
  }

  void Count(std::size_t offset, const Value& value) {
    if (!value.read) return;
    const auto bytes = static_cast<double>(value.end - offset);
    crossing_[value.first_cut] += bytes;
    crossing_[value.last_cut + 1] -= bytes;
  }

  std::vector<double> crossing_;
  std::map<std::size_t, Value> values_;
};

}  // namespace

std::vector<double> BoundaryBytes(const Plan& plan) {
  ArenaValues values(plan.ops.size());
  for (const PlanTensor& input : plan.inputs) values.Write(input.range, 0);
  for (std::uint32_t op = 0; op < plan.ops.size(); ++op) {
    for (const ByteRange& range : plan.ops[op].reads) values.Read(range, op);
    for (const ByteRange& range : plan.ops[op].writes) values.Write(range, op + 1);
  }
  return values.Finish();
}

std::vector<std::vector<std::size_t>> NodesByLastOp(const Plan& plan,
                                                    std::span<const std::string> nodes) {
  std::unordered_map<std::string_view, std::size_t> known;
  for (std::size_t i = 0; i < nodes.size(); ++i) known.emplace(nodes[i], i);
  std::vector<std::optional<std::size_t>> last(nodes.size());  // op, by node
  for (std::size_t op = 0; op < plan.ops.size(); ++op) {
    std::string_view name = plan.ops[op].name;
    while (!name.empty() && !known.contains(name)) {
      const std::size_t dot = name.rfind('.');
      name = name.substr(0, dot == std::string_view::npos ? 0 : dot);
    }
    if (!name.empty()) last[known.at(name)] = op;
  }
  std::vector<std::vector<std::size_t>> complete(plan.ops.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (last[i]) complete[*last[i]].push_back(i);
  }
  return complete;
}

SplitModel JoinOps(const SplitModel& model, std::span<const std::uint32_t> ends) {
  SplitModel joined;
  joined.cost = model.cost;
  std::uint32_t begin = 0;
  for (const std::uint32_t end : ends) {
    const auto ops = std::span(model.op_us).subspan(begin, end - begin);
    joined.op_us.push_back(std::accumulate(ops.begin(), ops.end(), 0.0));
    if (!model.boundary_bytes.empty()) {
      joined.boundary_bytes.push_back(model.boundary_bytes[begin]);
    }
    begin = end;
  }
  if (!model.boundary_bytes.empty()) joined.boundary_bytes.push_back(model.boundary_bytes.back());
  return joined;
}

SplitModel SplitModelOf(const Plan& plan, const CutCost& cost) {
  SplitModel model;
  for (const PlanOp& op : plan.ops) model.op_us.push_back(ToMicroseconds(op.cost.kernel));
  model.boundary_bytes = BoundaryBytes(plan);
  model.cost = cost;
  return model;
}

}  // namespace lagoon
