#include "plan/plan_binding.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace lagoon {
namespace {

constexpr std::size_t kArgsAlignment = 64;

std::size_t AlignUp(std::size_t bytes) {
  return (bytes + kArgsAlignment - 1) / kArgsAlignment * kArgsAlignment;
}

// Distance from the op's image to that of the next op. All versions of an op have the same struct.
std::size_t ArgsStride(const PlanOp& op) { return AlignUp(op.args.size()); }

std::uint32_t MostBlocks(const PlanOp& op) {
  std::uint32_t most = op.blocks;
  for (const OpVersion& version : op.versions) most = std::max(most, version.blocks);
  return most;
}

// Calls add(blocks, most blocks) for each record of the plan.
template <typename Add>
void ForEachRecord(const Plan& plan, Add add) {
  for (const PlanOp& op : plan.ops) add(op.blocks, MostBlocks(op));
  for (const auto* tensors : {&plan.inputs, &plan.outputs}) {
    for (const PlanTensor& tensor : *tensors) {
      const std::uint32_t blocks = CopyBlocks(tensor.spec.bytes());
      add(blocks, blocks);
    }
  }
}

// Sets the pointers into one region, which `target_of(offset)` finds.
template <typename TargetOf>
void Relocate(const PlanOp& op, Region region, std::byte* image, TargetOf target_of) {
  for (const Relocation& relocation : op.relocations) {
    if (relocation.region != region) continue;
    const std::byte* const target = target_of(relocation.offset);
    std::memcpy(image + relocation.args_offset, &target, sizeof(target));
  }
}

}  // namespace

ProgressRecords::ProgressRecords(const Plan& plan) {
  std::size_t words = 0;
  ForEachRecord(plan,
                [&](std::uint32_t, std::uint32_t most) { words += Progress::WordsFor(most); });
  words_ = std::make_unique<std::atomic<std::uint64_t>[]>(words);
  std::atomic<std::uint64_t>* next = words_.get();
  ForEachRecord(plan, [&](std::uint32_t blocks, std::uint32_t most) {
    const std::span bitmap(next, Progress::WordsFor(most));
    records_.emplace_back(blocks, bitmap);
    next += bitmap.size();
  });
}

PlanBinding::PlanBinding(const Instance& instance, std::shared_ptr<const LoadedPlan> loaded)
    : instance_(&instance),
      loaded_(std::move(loaded)),
      records_(std::make_shared<ProgressRecords>(plan())),
      in_flight_(plan().ops.size()) {
  const std::vector<PlanOp>& ops = plan().ops;
  for (std::size_t i = 0; i < records_->size(); ++i) progress_.push_back(&records_->at(i));

  std::size_t args_bytes = kArgsAlignment;
  for (const PlanOp& op : ops) args_bytes += ArgsStride(op);
  args_.resize(args_bytes);
  void* cursor = args_.data();
  LAGOON_CHECK(std::align(kArgsAlignment, 1, cursor, args_bytes) != nullptr);
  images_ = static_cast<std::byte*>(cursor);

  deps_.resize(ops.size() + plan().outputs.size());
  launches_.reserve(ops.size());
  std::byte* args = images_;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    AddOp(i, args);
    args += ArgsStride(ops[i]);
  }
  recut_.reserve(ops.size());
  AddDependents();
  Reset();
}

// Pointers to the arena are left null: PointTo() sets them.
void PlanBinding::AddOp(std::size_t index, std::byte* args) {
  const PlanOp& op = plan().ops[index];
  WriteImage(op, op.args, args);
  std::vector<Dep>& deps = deps_[index];
  for (const std::uint32_t on : op.deps) deps.push_back({progress_[on], plan().ops[on].blocks});
  for (std::size_t input = 0; input < plan().inputs.size(); ++input) {
    for (const std::uint32_t reader : plan().inputs[input].ops) {
      const Progress* copy = progress_[plan().ops.size() + input];
      if (reader == index) deps.push_back({copy, copy->blocks()});
    }
  }
  Launch launch;
  launch.kernel = op.kernel;
  launch.args = args;
  launch.progress = progress_[index];
  launch.deps = deps;
  launches_.push_back(launch);
  versions_.push_back(op.version);
}

void PlanBinding::AddDependents() {
  const std::vector<PlanOp>& ops = plan().ops;
  const std::vector<PlanTensor>& outputs = plan().outputs;
  for (std::size_t output = 0; output < outputs.size(); ++output) {
    for (const std::uint32_t producer : outputs[output].ops) {
      deps_[ops.size() + output].push_back({progress_[producer], ops[producer].blocks});
    }
  }
  dependents_.resize(ops.size());
  const auto depend = [&](std::vector<Dep>& deps, const std::vector<std::uint32_t>& on) {
    for (std::size_t i = 0; i < on.size(); ++i) dependents_[on[i]].push_back(&deps[i]);
  };
  for (std::size_t i = 0; i < ops.size(); ++i) depend(deps_[i], ops[i].deps);
  for (std::size_t i = 0; i < outputs.size(); ++i) depend(deps_[ops.size() + i], outputs[i].ops);
}

// Writes the arguments of a version of `op`, with pointers to the weights.
void PlanBinding::WriteImage(const PlanOp& op, const std::vector<std::byte>& args,
                             std::byte* image) const {
  LAGOON_CHECK(args.size() == op.args.size());
  std::copy(args.begin(), args.end(), image);
  Relocate(op, Region::kWeights, image, [&](std::size_t at) { return loaded_->Weight(at); });
}

// Sets the op's pointers to the arena.
void PlanBinding::PointToArena(const PlanOp& op, std::byte* image) const {
  Relocate(op, Region::kArena, image, [&](std::size_t at) { return arena_ + at; });
}

// Does not allocate, as Instance::Select() calls it.
void PlanBinding::PointTo(std::byte* arena) {
  arena_ = arena;
  std::byte* image = images_;
  for (const PlanOp& op : plan().ops) {
    PointToArena(op, image);
    image += ArgsStride(op);
  }
}

// Writes the version's arguments over those of the version in use. Does not allocate.
void PlanBinding::Recut(std::size_t index, std::uint32_t version) {
  const PlanOp& op = plan().ops[index];
  auto* const image = images_ + (static_cast<const std::byte*>(launches_[index].args) - images_);
  WriteImage(op, op.versions[version].args, image);
  if (arena_ != nullptr) PointToArena(op, image);
  versions_[index] = version;
  const std::uint32_t blocks = op.versions[version].blocks;
  progress_[index]->Reset(blocks);
  for (Dep* dep : dependents_[index]) dep->blocks = blocks;
}

void PlanBinding::Reset() {
  for (const std::size_t op : recut_) Recut(op, plan().ops[op].version);
  recut_.clear();
  for (Progress* progress : progress_) progress->Reset();
}

}  // namespace lagoon
