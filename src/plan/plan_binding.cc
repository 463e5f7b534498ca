#include "plan/plan_binding.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace lagoon {
namespace {

constexpr std::size_t kArgsAlignment = alignof(std::max_align_t);

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

// The number of dependencies of all ops and outputs.
std::size_t DepCount(const Plan& plan) {
  std::size_t count = 0;
  for (const PlanOp& op : plan.ops) count += op.deps.size();
  for (const auto* tensors : {&plan.inputs, &plan.outputs}) {
    for (const PlanTensor& tensor : *tensors) count += tensor.ops.size();
  }
  return count;
}

// Whether the copies of a job together leave nothing of the first ones in caches.
bool PastCaches(const Plan& plan) {
  constexpr std::size_t kCaches = std::size_t{32} << 20;
  std::size_t bytes = 0;
  for (const auto* tensors : {&plan.inputs, &plan.outputs}) {
    for (const PlanTensor& tensor : *tensors) bytes += tensor.spec.bytes();
  }
  return bytes >= kCaches;
}

// Sets a pointer in an image.
void Relocate(std::byte* place, const std::byte* target) {
  std::memcpy(place, &target, sizeof(target));
}

}  // namespace

ProgressRecords::ProgressRecords(const Plan& plan) {
  ForEachRecord(
      plan, [&](std::uint32_t, std::uint32_t most) { word_count_ += Progress::WordsFor(most); });
  words_ = std::make_unique<std::atomic<std::uint64_t>[]>(word_count_);
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
      past_caches_(PastCaches(plan())) {
  progress_.reserve(records_->size());
  for (std::size_t i = 0; i < records_->size(); ++i) progress_.push_back(&records_->at(i));

  const std::vector<PlanOp>& ops = plan().ops;
  std::size_t args_bytes = kArgsAlignment, pointers = 0, with_versions = 0;
  for (const PlanOp& op : ops) {
    args_bytes += ArgsStride(op);
    pointers += static_cast<std::size_t>(
        std::ranges::count(op.relocations, Region::kArena, &Relocation::region));
    with_versions += op.versions.empty() ? 0 : 1;
  }
  LAGOON_CHECK(args_bytes <= std::numeric_limits<std::uint32_t>::max());
  args_.resize(args_bytes);
  void* cursor = args_.data();
  LAGOON_CHECK(std::align(kArgsAlignment, 1, cursor, args_bytes) != nullptr);
  images_ = static_cast<std::byte*>(cursor);

  arena_pointers_.reserve(pointers);
  deps_.reserve(DepCount(plan()));  // launches and `dependents_` refer to its elements
  if (with_versions > 0) dependents_.resize(ops.size());
  recut_.reserve(with_versions);
  ops_.reserve(ops.size());
  std::size_t image = 0;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    AddOp(i, static_cast<std::uint32_t>(image));
    image += ArgsStride(ops[i]);
  }
  AddOutputs();
  Reset();
}

std::size_t PlanBinding::bytes() const {
  const auto of = [](const auto& elements) { return std::span(elements).size_bytes(); };
  std::size_t bytes = sizeof(PlanBinding) + records_->bytes() + of(args_) + of(progress_) +
                      of(deps_) + of(arena_pointers_) + of(ops_) + of(dependents_);
  for (const std::vector<Dep*>& of_op : dependents_) bytes += of(of_op);
  return bytes;
}

// Pointers to the arena are left null: PointTo() sets them.
void PlanBinding::AddOp(std::size_t index, std::uint32_t image) {
  const PlanOp& op = plan().ops[index];
  for (const OpVersion& version : op.versions) {
    LAGOON_CHECK(version.args.size() == op.args.size());
  }
  WriteImage(op, op.args, images_ + image);
  for (const Relocation& relocation : op.relocations) {
    if (relocation.region != Region::kArena) continue;
    arena_pointers_.push_back({image + relocation.args_offset, relocation.offset});
  }
  Op& bound = ops_.emplace_back();
  bound.kernel = op.kernel;
  bound.image = image;
  bound.version = op.version;
  bound.first_dep = static_cast<std::uint32_t>(deps_.size());
  for (const std::uint32_t on : op.deps) AddDep(on);
  for (std::size_t input = 0; input < plan().inputs.size(); ++input) {
    for (const std::uint32_t reader : plan().inputs[input].ops) {
      const Progress* copy = progress_[plan().ops.size() + input];
      if (reader == index) deps_.push_back({copy, copy->blocks()});
    }
  }
  bound.deps = static_cast<std::uint32_t>(deps_.size()) - bound.first_dep;
}

void PlanBinding::AddDep(std::uint32_t on) {
  const PlanOp& op = plan().ops[on];
  deps_.push_back({progress_[on], op.blocks});
  if (!op.versions.empty()) dependents_[on].push_back(&deps_.back());
}

void PlanBinding::AddOutputs() {
  outputs_.reserve(plan().outputs.size());
  for (const PlanTensor& output : plan().outputs) {
    const std::size_t first = deps_.size();
    for (const std::uint32_t producer : output.ops) AddDep(producer);
    outputs_.push_back(std::span(deps_).subspan(first));
  }
}

Launch PlanBinding::LaunchOf(std::size_t index) const {
  const Op& op = ops_[index];
  Launch launch;
  launch.kernel = op.kernel;
  launch.args = images_ + op.image;
  launch.progress = progress_[index];
  launch.deps = std::span(deps_).subspan(op.first_dep, op.deps);
  return launch;
}

// Writes the arguments of a version of `op`, with pointers to the weights.
void PlanBinding::WriteImage(const PlanOp& op, const std::vector<std::byte>& args,
                             std::byte* image) const {
  std::ranges::copy(args, image);
  for (const Relocation& relocation : op.relocations) {
    if (relocation.region == Region::kWeights) {
      Relocate(image + relocation.args_offset, loaded_->Weight(relocation.offset));
    }
  }
}

// Does not allocate, as Instance::Select() calls it.
void PlanBinding::PointTo(std::byte* arena) {
  arena_ = arena;
  for (const ArenaPointer& pointer : arena_pointers_) {
    Relocate(images_ + pointer.place, arena + pointer.target);
  }
}

// Writes the version's arguments over those of the version in use. Does not allocate.
void PlanBinding::Recut(std::size_t index, std::uint32_t version) {
  const PlanOp& op = plan().ops[index];
  const OpVersion& cut = op.versions[version];
  std::byte* const image = images_ + ops_[index].image;
  WriteImage(op, cut.args, image);
  for (const Relocation& relocation : op.relocations) {
    if (relocation.region == Region::kArena) {
      Relocate(image + relocation.args_offset, arena_ + relocation.offset);
    }
  }
  ops_[index].version = version;
  ops_[index].kernel = cut.kernel.value_or(op.kernel);
  progress_[index]->Reset(cut.blocks);
  for (Dep* dep : dependents_[index]) dep->blocks = cut.blocks;
}

void PlanBinding::Reset() {
  for (const std::size_t op : recut_) Recut(op, plan().ops[op].version);
  recut_.clear();
  for (Progress* progress : progress_) progress->Reset();
}

}  // namespace lagoon
