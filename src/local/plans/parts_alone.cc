#include "local/plans/parts_alone.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>

#include "plan/element.h"
#include "plan/instance.h"
#include "plan/strings.h"
#include "program/parts.h"
#include "program/run.h"

namespace lagoon {
namespace {

/// Runs one part after the other. Keeps all memory, because later parts read outputs of earlier
/// ones.
class PartsRun {
 public:
  PartsRun(ModelPlans& plans, std::shared_ptr<ServedPlan> first, Device& device)
      : plans_(plans), plan_(std::move(first)), device_(device) {
    std::mt19937 random(1);
    for (const PlanTensor& input : plan_->loaded->plan.inputs) {
      const Bytes& bytes = memory_.emplace_back(MadeUpInput(input.spec, random));
      inputs_.push_back({input.spec.dims, bytes});
    }
  }

  bool last() const { return !plan_->links.next; }

  /// Runs the present part and returns its time.
  Result<Nanoseconds> Run() {
    LAGOON_ASSIGN_OR_RETURN(const auto instance, Instance::Create(plan_->loaded, device_));
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const std::size_t input : plan_->inputs) in.push_back(inputs_[input].bytes.data());
    run_ = {};
    for (const PlanTensor& output : plan_->loaded->plan.outputs) {
      run_.outputs.emplace_back(memory_.emplace_back(output.spec.bytes()));
      out.push_back(memory_.back().data());
    }
    RunOptions options;
    options.made = &run_.made;
    Nanoseconds best = Nanoseconds::max();
    for (int i = 0; i < kRuns; ++i) {
      const TimePoint begin = device_.Now();
      LAGOON_RETURN_IF_ERROR(RunPlan(*instance, device_, in, out, options));
      best = std::min(best, device_.Now() - begin);
    }
    made_.insert(made_.end(), run_.made.begin(), run_.made.end());
    return best;
  }

  /// Compiles the part behind the present one, for what that has computed.
  Status Next() {
    const PartLinks& links = plan_->links;
    LAGOON_ASSIGN_OR_RETURN(inputs_,
                            InputsOfNextPart(links, plan_->loaded->plan, std::move(inputs_), run_));
    std::vector<Dims> dims;
    std::vector<std::span<const std::byte>> contents;
    for (const HostTensor& input : inputs_) {
      dims.push_back(input.dims);
      contents.push_back(input.bytes);
    }
    std::unique_ptr<PlanDraft> next;
    while (next == nullptr) {
      LAGOON_ASSIGN_OR_RETURN(
          next, plans_.Compile(plans_.Want(plan_, dims, contents), device_.info().units));
    }
    plan_ = std::make_shared<ServedPlan>(std::move(next));
    return {};
  }

 private:
  using Bytes = std::vector<std::byte>;

  static constexpr int kRuns = 3;  // the first one warms up

  ModelPlans& plans_;
  std::shared_ptr<ServedPlan> plan_;
  Device& device_;
  std::vector<HostTensor> inputs_;  // of the present part
  PartRun run_;
  std::deque<Bytes> memory_;
  std::vector<std::shared_ptr<const MadeTensor>> made_;
};

}  // namespace

std::vector<std::byte> MadeUpInput(const TensorSpec& spec, std::mt19937& random) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<std::byte> bytes(spec.bytes());
  if (spec.type == DataType::kString) {
    static constexpr StringElement kOne{"1", 1};
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(kOne)) {
      std::memcpy(bytes.data() + at, &kOne, sizeof(kOne));
    }
    return bytes;
  }
  WithElementType(spec.type, [&]<typename T>(std::type_identity<T>) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
      const auto element = ConvertElement<T>(IsFloat(spec.type) ? uniform(random) : 1.0F);
      std::memcpy(bytes.data() + at, &element, sizeof(T));
    }
  });
  return bytes;
}

Result<PartsAlone> MeasurePartsAlone(ModelPlans& plans, std::shared_ptr<ServedPlan> first,
                                     Device& device) {
  PartsAlone alone{1, first->loaded->plan.standalone};
  PartsRun run(plans, std::move(first), device);
  // The first part runs for what it computes; its time is known.
  LAGOON_RETURN_IF_ERROR(run.Run());
  for (; !run.last(); ++alone.parts) {
    if (alone.parts >= kMostPartsAlone) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("the model has more than {} parts", kMostPartsAlone));
    }
    LAGOON_RETURN_IF_ERROR(run.Next());
    LAGOON_ASSIGN_OR_RETURN(const Nanoseconds took, run.Run());
    alone.time += took;
  }
  return alone;
}

}  // namespace lagoon
