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

}  // namespace

Result<std::unique_ptr<Instance>> Instance::Create(std::shared_ptr<const LoadedPlan> loaded,
                                                   DeviceControl& device) {
  std::unique_ptr<Instance> instance(new Instance);
  instance->loaded_ = std::move(loaded);
  const Plan& plan = instance->plan();
  LAGOON_ASSIGN_OR_RETURN(instance->arena_, device.Allocate(plan.arena_bytes, MemoryKind::kDevice));

  for (const PlanOp& op : plan.ops) instance->AddProgress(op.blocks);
  for (const PlanTensor& input : plan.inputs) instance->AddProgress(CopyBlocks(input.spec.bytes()));
  for (const PlanTensor& output : plan.outputs) {
    instance->AddProgress(CopyBlocks(output.spec.bytes()));
  }

  std::size_t args_bytes = kArgsAlignment;
  for (const PlanOp& op : plan.ops) args_bytes += AlignUp(op.args.size());
  instance->args_.resize(args_bytes);
  void* cursor = instance->args_.data();
  std::size_t space = args_bytes;
  LAGOON_CHECK(std::align(kArgsAlignment, 1, cursor, space) != nullptr);
  auto* args = static_cast<std::byte*>(cursor);

  instance->deps_.resize(plan.ops.size() + plan.outputs.size());
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const PlanOp& op = plan.ops[i];
    std::copy(op.args.begin(), op.args.end(), args);
    for (const Relocation& relocation : op.relocations) {
      const Buffer& buffer =
          relocation.region == Region::kWeights ? instance->loaded_->weights : instance->arena_;
      const std::byte* target = buffer.data() + relocation.offset;
      std::memcpy(args + relocation.args_offset, &target, sizeof(target));
    }
    std::vector<Dep>& deps = instance->deps_[i];
    for (const std::uint32_t on : op.deps) {
      deps.push_back({instance->progress_[on].get(), plan.ops[on].blocks});
    }
    for (std::size_t input = 0; input < plan.inputs.size(); ++input) {
      for (const std::uint32_t reader : plan.inputs[input].ops) {
        const Progress* copy = instance->progress_[plan.ops.size() + input].get();
        if (reader == i) deps.push_back({copy, copy->blocks()});
      }
    }
    Segment segment;
    segment.kernel = op.kernel;
    segment.args = args;
    segment.progress = instance->progress_[i].get();
    segment.deps = deps;
    instance->segments_.push_back(segment);
    args += AlignUp(op.args.size());
  }
  for (std::size_t output = 0; output < plan.outputs.size(); ++output) {
    for (const std::uint32_t producer : plan.outputs[output].ops) {
      instance->deps_[plan.ops.size() + output].push_back(
          {instance->progress_[producer].get(), plan.ops[producer].blocks});
    }
  }
  instance->Reset();
  return instance;
}

Progress* Instance::AddProgress(std::uint32_t blocks) {
  const std::size_t words = Progress::WordsFor(blocks);
  bitmaps_.push_back(std::make_unique<std::atomic<std::uint64_t>[]>(words));
  progress_.push_back(std::make_unique<Progress>(blocks, std::span(bitmaps_.back().get(), words)));
  return progress_.back().get();
}

Copy Instance::InputCopy(std::size_t input, const void* host) {
  const PlanTensor& tensor = plan().inputs[input];
  Copy copy;
  copy.to = arena(tensor.range);
  copy.from = host;
  copy.bytes = tensor.spec.bytes();
  copy.progress = progress_[plan().ops.size() + input].get();
  return copy;
}

Copy Instance::OutputCopy(std::size_t output, void* host) {
  const PlanTensor& tensor = plan().outputs[output];
  Copy copy;
  copy.to = host;
  copy.from = arena(tensor.range);
  copy.bytes = tensor.spec.bytes();
  copy.progress = progress_[plan().ops.size() + plan().inputs.size() + output].get();
  copy.deps = deps_[plan().ops.size() + output];
  return copy;
}

void Instance::Reset() {
  for (const auto& progress : progress_) progress->Reset();
}

}  // namespace lagoon
