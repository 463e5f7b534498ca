#pragma once

// The plans of one model: one for each set of input shapes that requests have brought.

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "plan/plan.h"
#include "program/compile.h"
#include "serving/plans/plan_cache.h"

namespace lagoon {

/// Compiles the plans of a model, and knows which input contents decide them. Compile() and
/// CompileAtLoad(): one thread at a time, which may have a low priority: they hold no lock that the
/// other methods take. Keep(): one thread at a time. The rest: any thread.
class ModelPlans {
 public:
  ModelPlans(std::unique_ptr<ModelCompiler> compiler, const PlanCache::Limits& limits)
      : cache_(limits), compiler_(std::move(compiler)) {}

  const OnnxModel& model() const { return compiler_->model(); }

  /// The key of a request. `before`: the plan of the part before; null: the first part. `inputs`:
  /// the contents, by input of the model or part.
  PlanKey KeyOf(const ServedPlan* before, const std::vector<Dims>& dims,
                std::span<const std::span<const std::byte>> inputs) const;
  /// Null if there is no such plan yet.
  std::shared_ptr<ServedPlan> Find(const PlanKey& key) { return cache_.Find(key); }

  /// Compiles for the shapes and, where shapes depend on it, the contents of the inputs. On success
  /// the costs are carried over from `nearest` of the plans so far. The result has no queues yet.
  /// The caller keeps it (Keep()).
  Result<std::shared_ptr<ServedPlan>> Compile(ServedPlan* before, const std::vector<Dims>& dims,
                                              std::span<const std::span<const std::byte>> inputs,
                                              std::uint32_t units);
  /// The same for the first part without contents, when the model is loaded: fails if the plan
  /// depends on contents, and the costs are estimates.
  Result<std::shared_ptr<ServedPlan>> CompileAtLoad(const std::vector<Dims>& dims);

  std::vector<std::shared_ptr<ServedPlan>> Keep(std::shared_ptr<ServedPlan> plan, bool pinned);
  /// The inputs whose contents decide the first part's plan, as far as that is known.
  const std::set<std::size_t>& deciding() const { return deciding_.Get(); }

 private:
  Result<std::shared_ptr<ServedPlan>> TryCompile(const OnnxModel& part, const GraphInputs& inputs,
                                                 std::vector<std::size_t>* deciding);
  const Plan* Nearest(const Plan& plan) const;

  PlanCache cache_;
  const std::unique_ptr<ModelCompiler> compiler_;
  DecidingInputs deciding_;  // of the first part
  /// Plans whose costs others take: the pinned ones, and the first one.
  mutable Mutex measured_mutex_;
  std::vector<std::shared_ptr<ServedPlan>> measured_ GUARDED_BY(measured_mutex_);
};

}  // namespace lagoon
