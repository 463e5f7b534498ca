#pragma once

// The plans of one model that are ready, by what decides them.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "plan/plan.h"
#include "program/parts.h"
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

/// A plan under construction. Has one owner, who may change it, until it becomes a ServedPlan.
struct PlanDraft {
  std::shared_ptr<LoadedPlan> loaded;
  PartLinks links;
  PlanKey key;
  /// By input of the plan: its number among the inputs of the model or part. Inputs whose contents
  /// are part of the plan are left out.
  std::vector<std::size_t> inputs;
};

/// A plan on the queues of its model.
struct PlanOnQueues {
  std::unique_ptr<QueuePlan> own;      // for the queue of the model's class; null: its first plan
  std::unique_ptr<QueuePlan> lowered;  // for the best-effort queue of a real-time model
};

/// A plan as requests use it. If the model runs in parts: the plan of one of them.
struct ServedPlan {
  explicit ServedPlan(std::unique_ptr<PlanDraft> draft)
      : loaded(std::move(draft->loaded)),
        links(std::move(draft->links)),
        key(std::move(draft->key)),
        inputs(std::move(draft->inputs)) {}

  const std::shared_ptr<const LoadedPlan> loaded;
  const PartLinks links;
  const PlanKey key;
  const std::vector<std::size_t> inputs;  // PlanDraft::inputs
  DecidingInputs next_deciding;           // of the next part
  PlanOnQueues on;                        // set before a request finds the plan

  /// Any thread: a job of the plan took so long.
  void Took(Nanoseconds time) {
    Nanoseconds::rep known = fastest_ns_.load(std::memory_order_relaxed);
    while (time.count() > 0 && time.count() < known &&
           !fastest_ns_.compare_exchange_weak(known, time.count(), std::memory_order_relaxed)) {
    }
  }
  /// Any thread: how long a job takes alone on the device. Plan::standalone, or the shortest job if
  /// that took less: the time of a batch is at first only that of one row in proportion.
  Nanoseconds Alone() const {
    return std::min(loaded->plan.standalone,
                    Nanoseconds(fastest_ns_.load(std::memory_order_relaxed)));
  }

 private:
  std::atomic<Nanoseconds::rep> fastest_ns_{Nanoseconds::max().count()};
};

/// Keeps plans by key: those that are pinned always, and the others up to a number and a sum of
/// bytes. A plan that was used once goes before one that was used again, so that a flood of new
/// shapes does not push out the shapes in use; among equals the least recently used one goes first.
/// A plan that is over the limit of bytes by itself pushes out no other for them, and stays until
/// the next plan is added. Any thread.
class PlanCache {
 public:
  struct Limits {
    std::size_t plans = 64;                      // pinned ones included
    std::size_t bytes = std::size_t{256} << 20;  // BytesOf()
  };
  explicit PlanCache(const Limits& limits) : limits_(limits) {}

  /// Null if there is none. Counts as a use.
  std::shared_ptr<ServedPlan> Find(const PlanKey& key);
  /// The same as a mere question: no use.
  std::shared_ptr<ServedPlan> Peek(const PlanKey& key) const;
  /// Adds a plan, or replaces the one of the same key. Returns the plans that went for it, to be
  /// destroyed by the caller. They live on while requests use them.
  std::vector<std::shared_ptr<ServedPlan>> Add(const PlanKey& key, std::shared_ptr<ServedPlan> plan,
                                               bool pinned);
  std::size_t size() const;
  /// Without a plan that is over the limit by itself.
  std::size_t bytes() const;

 private:
  struct Entry {
    PlanKey key;
    std::shared_ptr<ServedPlan> plan;
    std::size_t bytes = 0;
  };
  using Entries = std::list<Entry>;
  /// Groups of entries, each with the least recently used one first. kTooLarge: over the limit of
  /// bytes by itself; at most the newest plan.
  enum Group : std::size_t { kOnce, kAgain, kTooLarge, kPinned };
  struct Position {
    Group group = kOnce;
    Entries::iterator entry;
  };

  using Plans = std::vector<std::shared_ptr<ServedPlan>>;
  Group GroupOf(const Entry& entry, bool pinned) const;
  void Release(const Position& position, Plans& gone) REQUIRES(mutex_);
  void RemoveFirst(Group group, Plans& gone) REQUIRES(mutex_);
  void Evict(Plans& gone) REQUIRES(mutex_);

  const Limits limits_;
  mutable Mutex mutex_;
  Entries groups_[4] GUARDED_BY(mutex_);
  std::unordered_map<PlanKey, Position> known_ GUARDED_BY(mutex_);
  std::size_t bytes_ GUARDED_BY(mutex_) = 0;  // of all groups but kTooLarge
};

/// Memory that this plan alone takes, with the constants that its request has made and without the
/// model's weights and the arena: about right.
std::size_t BytesOf(const ServedPlan& plan);

}  // namespace lagoon
