#include "program/link/link.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "program/link/memory_plan.h"
#include "program/link/ordering.h"

namespace lagoon {
namespace {

// Assumed speed of one CPU core, until a profile has better numbers.
constexpr double kUnitFlopsPerSecond = 60e9;
constexpr double kUnitBytesPerSecond = 8e9;

}  // namespace

OpCost EstimateCost(const Kernel& kernel, std::uint32_t units) {
  const double seconds =
      std::max(kernel.flops / kUnitFlopsPerSecond, kernel.bytes_moved / kUnitBytesPerSecond);
  OpCost cost;
  const double block = seconds / kernel.blocks * 1e9;
  const std::uint32_t rounds = (kernel.blocks + units - 1) / units;
  cost.block = Nanoseconds(static_cast<std::int64_t>(block) + 1);
  cost.kernel = cost.block * rounds;
  return cost;
}

namespace {

void AddRange(std::vector<ByteRange>& ranges, const ByteRange& range) {
  const bool known = std::any_of(ranges.begin(), ranges.end(), [&](const ByteRange& other) {
    return other.region == range.region && other.offset == range.offset &&
           other.bytes == range.bytes;
  });
  if (!known) ranges.push_back(range);
}

class Linker {
 public:
  Linker(const LoweredProgram& program, const PackedWeights& weights, DeviceControl& device)
      : program_(program),
        weights_(weights),
        device_(device),
        uses_(program.buffers.size()),
        written_(program.buffers.size()),
        place_(program.buffers.size()),
        in_place_(program.ops.size()),
        group_start_(program.ops.size()) {
    std::iota(place_.begin(), place_.end(), std::size_t{0});
  }

  Result<Plan> Link(const LinkOptions& options) {
    plan_.model = options.model;
    plan_.weight_bytes = weights_.bytes;
    FindUses();
    const auto deps = ReduceDeps(DataDeps());
    const Ordering ordering(deps);
    if (options.in_place) ShareInPlace(ordering);
    PlaceArena(ordering);
    plan_.ops.reserve(program_.ops.size());
    for (std::size_t i = 0; i < program_.ops.size(); ++i) {
      LAGOON_ASSIGN_OR_RETURN(PlanOp op, LinkOp(program_.ops[i]));
      op.deps = deps[i];
      op.in_place = in_place_[i];
      if (options.in_place) SetRestart(i, options, op);
      if (op.opaque != nullptr) plan_.opaque.push_back(static_cast<std::uint32_t>(i));
      plan_.ops.push_back(std::move(op));
    }
    LinkTensors();
    return std::move(plan_);
  }

 private:
  static std::size_t Index(BufferId id) { return static_cast<std::size_t>(id); }
  bool IsConstant(BufferId id) const { return program_.buffer(id).constant; }

  void FindUses() {
    for (std::uint32_t i = 0; i < program_.ops.size(); ++i) {
      for (const Operand& output : program_.ops[i].outputs) {
        BufferUse& use = uses_[Index(output.buffer)];
        use.producer = i;
        written_[Index(output.buffer)] = true;
        use.ops.push_back(i);
      }
      for (const Operand& input : program_.ops[i].inputs) {
        std::vector<std::uint32_t>& ops = uses_[Index(input.buffer)].ops;
        if (!IsConstant(input.buffer) && (ops.empty() || ops.back() != i)) ops.push_back(i);
      }
    }
    for (const auto* tensors : {&program_.inputs, &program_.outputs}) {
      for (const LoweredTensor& tensor : *tensors) uses_[Index(tensor.buffer)].pinned = true;
    }
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      uses_[i].bytes = program_.buffers[i].bytes;
      uses_[i].pinned = uses_[i].pinned || program_.buffers[i].pinned;
    }
  }

  std::vector<std::vector<std::uint32_t>> DataDeps() const {
    std::vector<std::vector<std::uint32_t>> deps(program_.ops.size());
    for (std::uint32_t i = 0; i < program_.ops.size(); ++i) {
      for (const Operand& input : program_.ops[i].inputs) {
        if (IsConstant(input.buffer) || !written_[Index(input.buffer)]) continue;
        deps[i].push_back(uses_[Index(input.buffer)].producer);
      }
    }
    return deps;
  }

  bool Used(std::size_t buffer) const { return !uses_[buffer].ops.empty() || uses_[buffer].pinned; }

  void ShareInPlace(const Ordering& ordering) {
    for (std::uint32_t i = 0; i < program_.ops.size(); ++i) {
      const LoweredOp& op = program_.ops[i];
      for (const std::uint32_t input : op.kernel.in_place) {
        if (in_place_[i] || !MayReplace(i, op.inputs[input], ordering)) continue;
        const std::size_t place = place_[Index(op.inputs[input].buffer)];
        const std::uint32_t first = GroupStart(i, uses_[place].producer);
        if (i - first + 1 <= kMaxInPlaceGroup) Replace(i, place, first);
      }
    }
  }

  // First op of the group that must run again if op i is interrupted. The group starts where op i's
  // place is first written, and contains the whole groups of all other in-place ops in it.
  std::uint32_t GroupStart(std::uint32_t i, std::uint32_t first) const {
    for (std::uint32_t op = i; op-- > first;) {
      if (in_place_[op]) first = std::min(first, group_start_[op]);
    }
    return first;
  }

  void Replace(std::uint32_t i, std::size_t place, std::uint32_t first) {
    in_place_[i] = true;
    group_start_[i] = first;
    const std::size_t output = Index(program_.ops[i].outputs[0].buffer);
    place_[output] = place;
    const std::vector<std::uint32_t>& users = uses_[output].ops;
    uses_[place].ops.insert(uses_[place].ops.end(), users.begin(), users.end());
    // The group's inputs must still be in memory when the group runs again.
    for (std::uint32_t op = first; op < i; ++op) {
      for (const Operand& read : program_.ops[op].inputs) {
        if (IsConstant(read.buffer)) continue;
        BufferUse& use = uses_[place_[Index(read.buffer)]];
        if (!use.pinned) use.ops.push_back(i);
      }
    }
  }

  // An op that is its whole group can be run again by claims: no block reads what another writes.
  void SetRestart(std::size_t i, const LinkOptions& options, PlanOp& op) const {
    if (options.restart == Restart::kNever) op.restart = Restart::kNever;
    if (options.restart != Restart::kByGroup || !in_place_[i]) return;
    op.restart = Restart::kByGroup;
    op.group_first = group_start_[i];
  }

  // True if output 0 of op i may take the place of one of its inputs: both are the same bytes, and
  // only this operand of this op still needs them.
  bool MayReplace(std::uint32_t i, const Operand& input, const Ordering& ordering) const {
    const LoweredOp& op = program_.ops[i];
    const std::size_t output = Index(op.outputs[0].buffer);
    if (IsConstant(input.buffer)) return false;
    const std::size_t place = place_[Index(input.buffer)];
    if (uses_[place].pinned || uses_[output].pinned || place_[output] != output) return false;
    const auto whole = [&](const Operand& operand) {
      return operand.offset == 0 && operand.bytes == uses_[place].bytes;
    };
    if (!whole(input) || !whole(op.outputs[0])) return false;
    const auto readers =
        std::count_if(op.inputs.begin(), op.inputs.end(), [&](const Operand& other) {
          return !IsConstant(other.buffer) && place_[Index(other.buffer)] == place;
        });
    return readers == 1 &&
           std::all_of(uses_[place].ops.begin(), uses_[place].ops.end(),
                       [&](std::uint32_t user) { return user == i || ordering.Precedes(user, i); });
  }

  void PlaceArena(const Ordering& ordering) {
    std::vector<std::size_t> placed;  // the first buffer of each place
    std::vector<BufferUse> uses;
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if (!Used(i) || place_[i] != i) continue;
      placed.push_back(i);
      uses.push_back(uses_[i]);
    }
    const MemoryPlan memory = PlanMemory(uses, ordering);
    offsets_ = weights_.offsets;
    plan_.buffers.reserve(uses_.size());
    for (std::size_t i = 0; i < placed.size(); ++i) offsets_[placed[i]] = memory.offsets[i];
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if (!Used(i)) continue;
      offsets_[i] = offsets_[place_[i]];
      plan_.buffers.push_back(
          {program_.buffers[i].name, {Region::kArena, offsets_[i], uses_[i].bytes}});
      plan_.activation_bytes += AlignBuffer(uses_[i].bytes);
    }
    plan_.arena_bytes = memory.bytes;
  }

  ByteRange RangeOf(const Operand& operand) const {
    return {IsConstant(operand.buffer) ? Region::kWeights : Region::kArena,
            offsets_[Index(operand.buffer)] + operand.offset, operand.bytes};
  }

  Result<PlanOp> LinkOp(const LoweredOp& lowered) {
    PlanOp op;
    op.name = lowered.name;
    op.kernel_name = lowered.kernel.name;
    op.blocks = lowered.kernel.blocks;
    op.scratch_bytes = lowered.kernel.scratch_bytes;
    op.args = lowered.kernel.args;
    op.flops = lowered.kernel.flops;
    op.cost = EstimateCost(lowered.kernel, device_.info().units);
    LAGOON_ASSIGN_OR_RETURN(op.kernel, LoadKernel(lowered.kernel));
    op.occupancy = device_.Occupancy(op.kernel);
    op.need = device_.NeedOf(op.kernel);
    op.versions.reserve(lowered.kernel.versions.size());
    for (const KernelVersion& version : lowered.kernel.versions) {
      op.versions.push_back(
          {version.name, version.args, version.blocks, version.scratch_bytes, {}});
    }
    op.relocations.reserve(lowered.inputs.size() + lowered.outputs.size());
    for (std::size_t i = 0; i < lowered.inputs.size(); ++i) {
      const ByteRange range = RangeOf(lowered.inputs[i]);
      AddRange(op.reads, range);
      op.relocations.push_back({lowered.kernel.inputs[i], range.region, range.offset});
    }
    for (std::size_t i = 0; i < lowered.outputs.size(); ++i) {
      const ByteRange range = RangeOf(lowered.outputs[i]);
      AddRange(op.writes, range);
      op.relocations.push_back({lowered.kernel.outputs[i], range.region, range.offset});
    }
    for (const auto* ranges : {&op.reads, &op.writes}) {
      for (const ByteRange& range : *ranges) op.accessed_bytes += static_cast<double>(range.bytes);
    }
    op.opaque = lowered.opaque;
    if (op.opaque == nullptr) return op;
    op.status = op.relocations.back().offset;
    op.restart = Restart::kNever;
    return op;
  }

  // Loads with scratch for every version, so that all versions share one handle.
  Result<KernelHandle> LoadKernel(const Kernel& kernel) {
    std::size_t scratch_bytes = kernel.scratch_bytes;
    for (const KernelVersion& version : kernel.versions) {
      scratch_bytes = std::max(scratch_bytes, version.scratch_bytes);
    }
    const std::tuple key(kernel.body, kernel.cuda, scratch_bytes);
    const auto found = kernels_.find(key);
    if (found != kernels_.end()) return found->second;
    LAGOON_ASSIGN_OR_RETURN(const KernelHandle handle,
                            device_.Load({kernel.name, kernel.body, kernel.cuda}, {scratch_bytes}));
    kernels_.emplace(key, handle);
    return handle;
  }

  void LinkTensors() {
    for (const LoweredTensor& input : program_.inputs) {
      const BufferUse& use = uses_[Index(input.buffer)];
      plan_.inputs.push_back({input.spec, RangeOf({input.buffer, 0, use.bytes}), use.ops});
    }
    for (const LoweredTensor& output : program_.outputs) {
      const BufferUse& use = uses_[Index(output.buffer)];
      plan_.outputs.push_back(
          {output.spec, RangeOf({output.buffer, 0, use.bytes}), {}, output.made});
      plan_.makes_outputs = plan_.makes_outputs || output.made.has_value();
      if (use.bytes > 0) plan_.outputs.back().ops = {use.producer};
    }
  }

  const LoweredProgram& program_;
  const PackedWeights& weights_;
  DeviceControl& device_;
  std::vector<BufferUse> uses_;     // by BufferId; `ops` is empty for constants
  std::vector<bool> written_;       // by BufferId: by an op, perhaps in the place of an input
  std::vector<std::size_t> place_;  // by BufferId: the first buffer in its place, possibly itself
  std::vector<bool> in_place_;      // by op: true if output 0 takes the place of an input
  std::vector<std::uint32_t> group_start_;  // by op; for in-place ops only
  std::vector<std::size_t> offsets_;        // by BufferId, in the buffer's region
  std::map<std::tuple<Body, const CudaImage*, std::size_t>, KernelHandle> kernels_;
  Plan plan_;
};

}  // namespace

Result<Plan> LinkPlan(const LoweredProgram& program, const PackedWeights& weights,
                      DeviceControl& device, const LinkOptions& options) {
  return Linker(program, weights, device).Link(options);
}

}  // namespace lagoon
