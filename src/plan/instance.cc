#include "plan/instance.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace lagoon {
namespace {

constexpr std::size_t kArgsAlignment = 64;

std::size_t AlignUp(std::size_t bytes) {
  return (bytes + kArgsAlignment - 1) / kArgsAlignment * kArgsAlignment;
}

// Distance between the images of two versions of an op; all versions have the same struct.
std::size_t ArgsStride(const PlanOp& op) { return AlignUp(op.args.size()); }

std::size_t VersionCount(const PlanOp& op) { return std::max<std::size_t>(op.versions.size(), 1); }

std::uint32_t MostBlocks(const PlanOp& op) {
  std::uint32_t most = op.blocks;
  for (const OpVersion& version : op.versions) most = std::max(most, version.blocks);
  return most;
}

std::size_t MostArenaBytes(const LoadedPlan& loaded) {
  std::size_t most = 0;
  for (std::size_t size = 0; size < loaded.sizes(); ++size) {
    most = std::max(most, loaded.at(size).arena_bytes);
  }
  return most;
}

}  // namespace

Result<std::unique_ptr<Instance>> Instance::Create(std::shared_ptr<const LoadedPlan> loaded,
                                                   DeviceControl& device) {
  LAGOON_ASSIGN_OR_RETURN(Buffer arena,
                          device.Allocate(MostArenaBytes(*loaded), MemoryKind::kDevice));
  std::unique_ptr<Instance> instance = Create(std::move(loaded), std::move(arena));
  instance->arena_on_host_ = device.info().memory_on_host;
  return instance;
}

std::unique_ptr<Instance> Instance::CreateOver(std::byte* arena,
                                               std::shared_ptr<const LoadedPlan> loaded) {
  LAGOON_CHECK(arena != nullptr || MostArenaBytes(*loaded) == 0);
  return Create(std::move(loaded), Buffer(arena, 0, [](void*, std::size_t) {}));
}

std::unique_ptr<Instance> Instance::Create(std::shared_ptr<const LoadedPlan> loaded, Buffer arena) {
  std::unique_ptr<Instance> instance(new Instance);
  instance->loaded_ = std::move(loaded);
  instance->arena_ = std::move(arena);
  const LoadedPlan& plans = instance->loaded();
  instance->bindings_.reserve(plans.sizes());
  for (std::size_t size = 0; size < plans.sizes(); ++size) {
    instance->bindings_.push_back(instance->Bind(plans.at(size)));
  }
  instance->Select(0);
  instance->Reset();
  return instance;
}

void Instance::Select(std::size_t size) { binding_ = &bindings_.at(size); }

Instance::Binding Instance::Bind(const Plan& plan) const {
  Binding binding;
  binding.plan = &plan;
  for (const PlanOp& op : plan.ops) binding.AddProgress(op.blocks, MostBlocks(op));
  for (const auto* tensors : {&plan.inputs, &plan.outputs}) {
    for (const PlanTensor& tensor : *tensors) {
      const std::uint32_t blocks = CopyBlocks(tensor.spec.bytes());
      binding.AddProgress(blocks, blocks);
    }
  }

  std::size_t args_bytes = kArgsAlignment;
  for (const PlanOp& op : plan.ops) args_bytes += VersionCount(op) * ArgsStride(op);
  binding.args.resize(args_bytes);
  void* cursor = binding.args.data();
  std::size_t space = args_bytes;
  LAGOON_CHECK(std::align(kArgsAlignment, 1, cursor, space) != nullptr);
  auto* args = static_cast<std::byte*>(cursor);

  binding.deps.resize(plan.ops.size() + plan.outputs.size());
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    BindOp(binding, i, args);
    args += VersionCount(plan.ops[i]) * ArgsStride(plan.ops[i]);
  }
  for (std::size_t output = 0; output < plan.outputs.size(); ++output) {
    for (const std::uint32_t producer : plan.outputs[output].ops) {
      binding.deps[plan.ops.size() + output].push_back(
          {binding.progress[producer].get(), plan.ops[producer].blocks});
    }
  }
  binding.dependents.resize(plan.ops.size());
  const auto depend = [&](std::vector<Dep>& deps, const std::vector<std::uint32_t>& on) {
    for (std::size_t i = 0; i < on.size(); ++i) binding.dependents[on[i]].push_back(&deps[i]);
  };
  for (std::size_t i = 0; i < plan.ops.size(); ++i) depend(binding.deps[i], plan.ops[i].deps);
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) {
    depend(binding.deps[plan.ops.size() + i], plan.outputs[i].ops);
  }
  return binding;
}

void Instance::BindOp(Binding& binding, std::size_t index, std::byte* args) const {
  const Plan& plan = *binding.plan;
  const PlanOp& op = plan.ops[index];
  for (std::size_t version = 0; version < VersionCount(op); ++version) {
    const std::vector<std::byte>& from = op.versions.empty() ? op.args : op.versions[version].args;
    LAGOON_CHECK(from.size() == op.args.size());
    std::byte* to = args + version * ArgsStride(op);
    std::copy(from.begin(), from.end(), to);
    for (const Relocation& relocation : op.relocations) {
      const Buffer& buffer = relocation.region == Region::kWeights ? loaded_->weights : arena_;
      const std::byte* target = buffer.data() + relocation.offset;
      std::memcpy(to + relocation.args_offset, &target, sizeof(target));
    }
  }
  std::vector<Dep>& deps = binding.deps[index];
  for (const std::uint32_t on : op.deps) {
    deps.push_back({binding.progress[on].get(), plan.ops[on].blocks});
  }
  for (std::size_t input = 0; input < plan.inputs.size(); ++input) {
    for (const std::uint32_t reader : plan.inputs[input].ops) {
      const Progress* copy = binding.progress[plan.ops.size() + input].get();
      if (reader == index) deps.push_back({copy, copy->blocks()});
    }
  }
  Launch launch;
  launch.kernel = op.kernel;
  launch.args = args + op.version * ArgsStride(op);
  launch.progress = binding.progress[index].get();
  launch.deps = deps;
  binding.launches.push_back(launch);
  binding.versions.push_back(op.version);
  binding.recut.reserve(plan.ops.size());
}

void Instance::Binding::AddProgress(std::uint32_t blocks, std::uint32_t most_blocks) {
  const std::size_t words = Progress::WordsFor(most_blocks);
  bitmaps.push_back(std::make_unique<std::atomic<std::uint64_t>[]>(words));
  progress.push_back(std::make_unique<Progress>(blocks, std::span(bitmaps.back().get(), words)));
}

Copy Instance::InputCopy(std::size_t input, const void* host) {
  const PlanTensor& tensor = plan().inputs[input];
  Copy copy;
  copy.to = arena(tensor.range);
  copy.from = host;
  copy.bytes = tensor.spec.bytes();
  copy.progress = binding_->progress[plan().ops.size() + input].get();
  return copy;
}

Copy Instance::OutputCopy(std::size_t output, void* host) {
  const PlanTensor& tensor = plan().outputs[output];
  Copy copy;
  copy.to = host;
  copy.from = arena(tensor.range);
  copy.bytes = tensor.spec.bytes();
  copy.progress = binding_->progress[plan().ops.size() + plan().inputs.size() + output].get();
  copy.deps = binding_->deps[plan().ops.size() + output];
  return copy;
}

void Instance::Touch() {
  if (arena_on_host_ && arena_.size() > 0) std::memset(arena_.data(), 0, arena_.size());
}

void Instance::UseVersion(std::size_t index, std::uint32_t version) {
  LAGOON_CHECK(version < plan().ops[index].versions.size() && progress(index).done() == 0);
  if (binding_->versions[index] == version) return;
  if (std::find(binding_->recut.begin(), binding_->recut.end(), index) == binding_->recut.end()) {
    binding_->recut.push_back(index);
  }
  binding_->Recut(index, version);
}

void Instance::Binding::Recut(std::size_t index, std::uint32_t version) {
  const PlanOp& op = plan->ops[index];
  const std::uint32_t blocks = op.versions[version].blocks;
  auto* image = static_cast<const std::byte*>(launches[index].args);
  launches[index].args = image + (std::ptrdiff_t{version} - std::ptrdiff_t{versions[index]}) *
                                     static_cast<std::ptrdiff_t>(ArgsStride(op));
  versions[index] = version;
  progress[index]->Reset(blocks);
  for (Dep* dep : dependents[index]) dep->blocks = blocks;
}

void Instance::Reset() {
  for (const std::size_t op : binding_->recut) binding_->Recut(op, plan().ops[op].version);
  binding_->recut.clear();
  for (const auto& progress : binding_->progress) progress->Reset();
}

}  // namespace lagoon
