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

/// A plan that is ready on the queues of its model.
struct ServedPlan {
  std::shared_ptr<const LoadedPlan> loaded;
  /// By input of the plan: its number among the inputs of the model. Inputs whose contents are part
  /// of the plan are left out.
  std::vector<std::size_t> inputs;
  std::unique_ptr<QueuePlan> own;      // for the queue of the model's class; null: its first plan
  std::unique_ptr<QueuePlan> lowered;  // for the best-effort queue of a real-time model
};

/// What a request brings that decides its plan: a dense text, equal for equal plans.
using PlanKey = std::string;

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
std::size_t BytesOf(const Plan& plan);

/// Compiles the plans of a model, and knows which input contents decide them. Compile() and
/// CompileAtLoad(): one thread at a time, which may have a low priority: they hold no lock that the
/// other methods take. Keep(): one thread at a time. The rest: any thread.
class ModelPlans {
 public:
  ModelPlans(std::unique_ptr<ModelCompiler> compiler, const PlanCache::Limits& limits)
      : cache_(limits), compiler_(std::move(compiler)) {
    SetDeciding({});
  }

  const OnnxModel& model() const { return compiler_->model(); }

  /// The key of a request. `inputs`: the contents, by input of the model.
  PlanKey KeyOf(const std::vector<Dims>& dims,
                std::span<const std::span<const std::byte>> inputs) const;
  /// Null if there is no such plan yet.
  std::shared_ptr<ServedPlan> Find(const PlanKey& key) { return cache_.Find(key); }

  /// Compiles for the shapes and, where shapes depend on it, the contents of the inputs. On success
  /// the costs are carried over from `nearest` of the plans so far. `key` becomes the key of the
  /// result, which has no queues yet. The caller keeps it (Keep()).
  Result<std::shared_ptr<ServedPlan>> Compile(const std::vector<Dims>& dims,
                                              std::span<const std::span<const std::byte>> inputs,
                                              std::uint32_t units, PlanKey& key);
  /// The same without contents, when the model is loaded: fails if the plan depends on contents,
  /// and the costs are estimates.
  Result<std::shared_ptr<ServedPlan>> CompileAtLoad(const std::vector<Dims>& dims);

  std::vector<std::shared_ptr<ServedPlan>> Keep(const PlanKey& key,
                                                std::shared_ptr<ServedPlan> plan, bool pinned);
  /// The inputs whose contents decide the plan, as far as that is known.
  const std::set<std::size_t>& deciding() const {
    return *deciding_.load(std::memory_order_acquire);
  }

 private:
  Result<std::shared_ptr<ServedPlan>> TryCompile(const GraphInputs& inputs,
                                                 std::vector<std::size_t>* deciding);
  bool SetDeciding(std::set<std::size_t> inputs);
  const Plan* Nearest(const Plan& plan) const;

  PlanCache cache_;
  const std::unique_ptr<ModelCompiler> compiler_;
  // The present set, and all former ones, which other threads may still read. A set only grows, so
  // there are no more of them than inputs.
  std::atomic<const std::set<std::size_t>*> deciding_{nullptr};
  std::vector<std::unique_ptr<const std::set<std::size_t>>> deciding_sets_;
  /// Plans whose costs others take: the pinned ones, and the first one.
  mutable Mutex measured_mutex_;
  std::vector<std::shared_ptr<ServedPlan>> measured_ GUARDED_BY(measured_mutex_);
};

}  // namespace lagoon
