#include "local/plans/model_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/folders.h"
#include "program/parts.h"
#include "program/profile/versions.h"

namespace lagoon {
namespace {

void AppendNumber(PlanKey& key, std::int64_t number) {
  key.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

std::int64_t Elements(const Plan& plan) {
  std::int64_t elements = 1;
  for (const PlanTensor& input : plan.inputs) elements += ElementCount(input.spec.dims);
  return elements;
}

/// `deciding`: the inputs whose contents are part of the key.
PlanKey MakeKey(const ServedPlan* before, const std::vector<Dims>& dims,
                std::span<const std::span<const std::byte>> inputs,
                const std::set<std::size_t>& deciding) {
  PlanKey key;
  if (before != nullptr) {
    key = before->key;
    AppendNumber(key, static_cast<std::int64_t>(before->key.size()));
  }
  for (const Dims& of_input : dims) {
    AppendNumber(key, static_cast<std::int64_t>(of_input.size()));
    for (const std::int64_t size : of_input) AppendNumber(key, size);
  }
  for (const std::size_t input : deciding) {
    if (input >= inputs.size()) continue;
    key.append(reinterpret_cast<const char*>(inputs[input].data()), inputs[input].size());
  }
  return key;
}

/// A copy of the plan that keeps the model's weights, but not the constants that its request made.
std::shared_ptr<const Plan> WithWeightsOfModel(const LoadedPlan& plan) {
  auto copy = std::make_shared<LoadedPlan>();
  copy->plan = plan.plan;
  std::ranges::copy_if(plan.weights, std::back_inserter(copy->weights),
                       [](const auto& chunk) { return !chunk->from_request; });
  return {copy, &copy->plan};
}

bool HoldsContentsOf(const GraphInputs& inputs, const std::set<std::size_t>& deciding) {
  return std::ranges::equal(inputs.values, deciding, {},
                            [](const auto& held) { return held.first; });
}

}  // namespace

PlanKey ModelPlans::KeyOf(const ServedPlan* before, const std::vector<Dims>& dims,
                          std::span<const std::span<const std::byte>> inputs) const {
  return MakeKey(before, dims, inputs, Deciding(before));
}

WantedPlan ModelPlans::Want(std::shared_ptr<ServedPlan> before, const std::vector<Dims>& dims,
                            std::span<const std::span<const std::byte>> inputs) const {
  // Read once: the set may grow meanwhile.
  const std::set<std::size_t>& deciding = Deciding(before.get());
  WantedPlan wanted;
  wanted.inputs.dims = dims;
  wanted.inputs.work.max_bytes = kMaxRequestConstants;
  const std::vector<DeclaredTensor>& declared = PartBehind(before.get()).inputs();
  // The key is of the copies: the client of a channel may change its inputs meanwhile, and a plan
  // must not be kept under other contents than its own.
  std::vector<std::span<const std::byte>> copied(inputs.begin(), inputs.end());
  for (const std::size_t input : deciding) {
    if (input >= inputs.size()) continue;
    Constant& copy = wanted.inputs.values[input];
    copy = AsConstant(declared[input].type, {dims[input], inputs[input]});
    copied[input] = *copy.bytes;
  }
  wanted.key = MakeKey(before.get(), dims, copied, deciding);
  wanted.before = std::move(before);
  return wanted;
}

Result<std::unique_ptr<PlanDraft>> ModelPlans::TryCompile(const OnnxModel& part,
                                                          const GraphInputs& inputs,
                                                          std::vector<std::size_t>* deciding) {
  LAGOON_ASSIGN_OR_RETURN(CompiledPart compiled, compiler_->CompilePart(part, inputs, deciding));
  auto plan = std::make_unique<PlanDraft>();
  for (std::size_t i = 0; i < part.inputs().size(); ++i) {
    if (!inputs.values.contains(i)) plan->inputs.push_back(i);
  }
  plan->loaded = std::move(compiled.loaded);
  plan->links = std::move(compiled.links);
  return plan;
}

Result<std::unique_ptr<PlanDraft>> ModelPlans::CompileAtLoad(const std::vector<Dims>& dims) {
  std::vector<std::size_t> deciding;
  auto plan = TryCompile(model(), {dims, {}}, &deciding);
  deciding_.Add({deciding.begin(), deciding.end()});
  if (plan) (*plan)->key = KeyOf(nullptr, dims, {});
  return plan;
}

Result<std::unique_ptr<PlanDraft>> ModelPlans::Compile(const WantedPlan& wanted,
                                                       std::uint32_t units) {
  ServedPlan* const before = wanted.before.get();
  DecidingInputs& known = before == nullptr ? deciding_ : before->next_deciding;
  if (!HoldsContentsOf(wanted.inputs, known.Get())) return nullptr;
  std::vector<std::size_t> deciding;
  auto plan = TryCompile(PartBehind(before), wanted.inputs, &deciding);
  if (!plan) {
    if (known.Add({deciding.begin(), deciding.end()})) return nullptr;
    plan.error().message = WithoutFolders(plan.error().message);  // a request's answer
    return plan;
  }
  (*plan)->key = wanted.key;
  Plan& made = (*plan)->loaded->plan;
  const Plan* const nearest = TakeProfile(made) ? nullptr : Nearest(made);
  if (nearest != nullptr) ScaleProfile(*nearest, made, units);
  DropUnmeasuredVersions(made);
  return plan;
}

/// Returns false if the plan has not been measured.
bool ModelPlans::TakeProfile(Plan& plan) const {
  if (!profiles_) return false;
  const std::string key = ProfileKey(plan, profiles_->device, profiles_->store.build);
  return LoadProfile(profiles_->store, key, plan) != ProfileFound::kNone;
}

/// The plan whose inputs have the most similar number of elements.
const Plan* ModelPlans::Nearest(const Plan& plan) const {
  const Plan* nearest = nullptr;
  double least = 0;
  const MutexLock lock(measured_mutex_);
  for (const std::shared_ptr<const Plan>& known : measured_) {
    const double distance = std::abs(std::log(static_cast<double>(Elements(plan))) -
                                     std::log(static_cast<double>(Elements(*known))));
    if (nearest != nullptr && distance >= least) continue;
    nearest = known.get();
    least = distance;
  }
  return nearest;
}

std::vector<std::shared_ptr<ServedPlan>> ModelPlans::Keep(std::shared_ptr<ServedPlan> plan,
                                                          bool pinned) {
  {
    const MutexLock lock(measured_mutex_);
    if (pinned) {
      measured_.emplace_back(plan->loaded, &plan->loaded->plan);
    } else if (measured_.empty()) {
      measured_.push_back(WithWeightsOfModel(*plan->loaded));
    }
  }
  const PlanKey key = plan->key;
  return cache_.Add(key, std::move(plan), pinned);
}

}  // namespace lagoon
