#pragma once

// The plans of one model: one for each set of input shapes that requests have brought.

#include <atomic>
#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "plan/plan.h"
#include "program/compile.h"
#include "sched/queue_plan.h"

namespace lagoon {

/// What a request brings that decides its plan: a dense text, equal for equal plans.
using PlanKey = std::string;

/// The inputs of a model, or of a part, whose contents decide a plan, as far as that is known. Any
/// thread may read.
class DecidingInputs {
 public:
  DecidingInputs() { Add({}); }
  const std::set<std::size_t>& Get() const { return *present_.load(std::memory_order_acquire); }
  /// Adds inputs; false if all of them were known. One thread at a time.
  bool Add(std::set<std::size_t> inputs);

 private:
  // The present set, and all former ones, which other threads may still read. A set only grows, so
  // there are no more of them than inputs.
  std::atomic<const std::set<std::size_t>*> present_{nullptr};
  std::vector<std::unique_ptr<const std::set<std::size_t>>> sets_;
};

/// A plan that is ready on the queues of its model. If the model runs in parts: the plan of one of
/// them.
struct ServedPlan {
  std::shared_ptr<const LoadedPlan> loaded;
  PartLinks links;
  PlanKey key;
  /// By input of the plan: its number among the inputs of the model or part. Inputs whose contents
  /// are part of the plan are left out.
  std::vector<std::size_t> inputs;
  DecidingInputs next_deciding;        // of the next part
  std::unique_ptr<QueuePlan> own;      // for the queue of the model's class; null: its first plan
  std::unique_ptr<QueuePlan> lowered;  // for the best-effort queue of a real-time model
};

/// Keeps plans by key: those that are pinned always, and the others up to a number and a sum of
/// bytes. A plan that was used once goes before one that was used again, so that a flood of new
/// shapes does not push out the shapes in use; among equals the least recently used one goes first.
/// Any thread.
class PlanCache {
 public:
  struct Limits {
    std::size_t plans = 64;                      // pinned ones included
    std::size_t bytes = std::size_t{256} << 20;  // of the plans themselves, without weights
  };
  explicit PlanCache(const Limits& limits) : limits_(limits) {}

  /// Null if there is none. Counts as a use.
  std::shared_ptr<ServedPlan> Find(const PlanKey& key);
  /// Adds a plan, or replaces the one of the same key. Returns the plans that went for it, to be
  /// destroyed by the caller. They live on while requests use them.
  std::vector<std::shared_ptr<ServedPlan>> Add(const PlanKey& key, std::shared_ptr<ServedPlan> plan,
                                               bool pinned);
  std::size_t size() const;
  std::size_t bytes() const;

 private:
  struct Entry {
    PlanKey key;
    std::shared_ptr<ServedPlan> plan;
    std::size_t bytes = 0;
  };
  using Entries = std::list<Entry>;
  /// Groups of entries, each with the least recently used one first.
  enum Group : std::size_t { kOnce, kAgain, kPinned };
  struct Position {
    Group group = kOnce;
    Entries::iterator entry;
  };

  void Evict(std::vector<std::shared_ptr<ServedPlan>>& gone) REQUIRES(mutex_);

  const Limits limits_;
  mutable Mutex mutex_;
  Entries groups_[3] GUARDED_BY(mutex_);
  std::unordered_map<PlanKey, Position> known_ GUARDED_BY(mutex_);
  std::size_t bytes_ GUARDED_BY(mutex_) = 0;
};

/// Memory that a plan takes, without weights and arena: about right.
std::size_t BytesOf(const ServedPlan& plan);

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
