#pragma once

// The plans of one model: one for each set of input shapes that requests have brought.

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "device/device.h"
#include "local/plans/plan_cache.h"
#include "plan/plan.h"
#include "program/compile.h"
#include "program/profile/profile_file.h"

namespace lagoon {

/// Most bytes of constants that may follow from the shapes and contents of one request: a small
/// request must not take much memory, nor the compiling thread for long.
inline constexpr std::size_t kMaxRequestConstants = std::size_t{1} << 30;

/// What a plan is made of. Owns all of it, because the request that a plan is made for may end, and
/// its memory be used for another one, before the plan is made.
struct WantedPlan {
  PlanKey key;
  std::shared_ptr<ServedPlan> before;  // the plan of the part before; null: the first part
  GraphInputs inputs;  // with the contents that decide the plan, as far as that was known
};

/// Compiles the plans of a model, and knows which input contents decide them. Compile() and
/// CompileAtLoad(): one thread at a time, which may have a low priority: they hold no lock that the
/// other methods take. Keep(): one thread at a time. The rest: any thread.
class ModelPlans {
 public:
  ModelPlans(std::unique_ptr<ModelCompiler> compiler, const PlanCache::Limits& limits)
      : cache_(limits), compiler_(std::move(compiler)) {}

  const OnnxModel& model() const { return compiler_->model(); }
  /// From now on Compile() takes the profiles that were measured for `device`. Before Compile().
  void UseProfiles(ProfileStore store, DeviceInfo device) {
    profiles_ = {std::move(store), std::move(device)};
  }

  /// The key of a request. `before`: the plan of the part before; null: the first part. `inputs`:
  /// the contents, by input of the model or part.
  PlanKey KeyOf(const ServedPlan* before, const std::vector<Dims>& dims,
                std::span<const std::span<const std::byte>> inputs) const;
  /// The same, with copies of what the plan is made of. Contents that are left out are not copied.
  WantedPlan Want(std::shared_ptr<ServedPlan> before, const std::vector<Dims>& dims,
                  std::span<const std::span<const std::byte>> inputs) const;
  /// Null if there is no such plan yet.
  std::shared_ptr<ServedPlan> Find(const PlanKey& key) { return cache_.Find(key); }
  std::shared_ptr<ServedPlan> Peek(const PlanKey& key) const { return cache_.Peek(key); }
  const PlanCache& cache() const { return cache_; }

  /// Compiles for the shapes and, where shapes depend on it, the contents of the inputs. On success
  /// the costs are those of the plan's profile, else carried over from the nearest of the plans so
  /// far. The caller makes a ServedPlan of it and keeps that (Keep()). Null: more inputs decide the
  /// plan than `wanted` has contents of; Want() knows them now. Errors are for remote clients:
  /// they name no folders.
  Result<std::unique_ptr<PlanDraft>> Compile(const WantedPlan& wanted, std::uint32_t units);
  /// The same for the first part without contents, when the model is loaded: fails if the plan
  /// depends on contents, and the costs are estimates.
  Result<std::unique_ptr<PlanDraft>> CompileAtLoad(const std::vector<Dims>& dims);

  std::vector<std::shared_ptr<ServedPlan>> Keep(std::shared_ptr<ServedPlan> plan, bool pinned);
  /// The inputs whose contents decide the first part's plan, as far as that is known.
  const std::set<std::size_t>& deciding() const { return deciding_.Get(); }

 private:
  const std::set<std::size_t>& Deciding(const ServedPlan* before) const {
    return before == nullptr ? deciding_.Get() : before->next_deciding.Get();
  }
  const OnnxModel& PartBehind(const ServedPlan* before) const {
    return before == nullptr ? model() : *before->links.next->model;
  }
  Result<std::unique_ptr<PlanDraft>> TryCompile(const OnnxModel& part, const GraphInputs& inputs,
                                                std::vector<std::size_t>* deciding);
  bool TakeProfile(Plan& plan) const;
  const Plan* Nearest(const Plan& plan) const;

  struct Profiles {
    ProfileStore store;
    DeviceInfo device;
  };

  PlanCache cache_;
  std::optional<Profiles> profiles_;
  const std::unique_ptr<ModelCompiler> compiler_;
  DecidingInputs deciding_;  // of the first part
  /// Plans whose costs others take: the pinned ones, and the first one.
  mutable Mutex measured_mutex_;
  std::vector<std::shared_ptr<const Plan>> measured_ GUARDED_BY(measured_mutex_);
};

}  // namespace lagoon
