#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "plan/plan.h"
#include "plan/plan_binding.h"

namespace lagoon {

/// An arena and the plans that are bound to it. Runs one job at a time, of any of these plans.
///
/// The arena is shared by the plans, and grows when a plan needs more. Two sides use an instance:
///
/// - Bind() and FreeUnused(): any thread, also while a job runs. They allocate and free memory.
///
/// - All other methods: one thread at a time, in a dispatcher under its lock. They do not allocate
///   and do not wait for the first side, which may be a thread of low priority: the two sides
///   exchange arenas through atomics.
class Instance {
 public:
  /// Without a plan and without an arena. `device` must live as long as Bind() is called.
  static std::unique_ptr<Instance> Create(DeviceControl& device);

  /// With one plan, bound and selected: first(). kResourceExhausted if there is no memory.
  static Result<std::unique_ptr<Instance>> Create(std::shared_ptr<const LoadedPlan> loaded,
                                                  DeviceControl& device);

  /// The same over `arena`, which the caller owns and which must outlive the instance. It must have
  /// the plan's arena_bytes; null where that is 0. Such an arena does not grow.
  static std::unique_ptr<Instance> CreateOver(std::byte* arena,
                                              std::shared_ptr<const LoadedPlan> loaded);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // ---- Any thread, also while a job runs

  /// Makes a plan ready to run. Where the plan needs more than the largest arena so far, this
  /// allocates an arena that waits until Select() takes it: kResourceExhausted if there is no
  /// memory. Calls FreeUnused() first. `memory`: from AllocateFor() for this plan, or empty.
  Result<std::unique_ptr<PlanBinding>> Bind(std::shared_ptr<const LoadedPlan> loaded,
                                            Buffer memory = {});

  /// Allocates the arena that Bind() would allocate. Empty if the plan needs no larger one. A
  /// caller that binds a plan to several instances allocates for all of them first: if one has no
  /// memory, the arenas of the others have not grown.
  Result<Buffer> AllocateFor(const Plan& plan);

  /// Frees the arenas that a larger one has replaced. Also frees the arena that waits, if all plans
  /// that need it are gone.
  void FreeUnused();

  // ---- One thread at a time

  /// Selects the plan for plan() and all methods below. Takes a larger arena if the plan needs it,
  /// and lets the plan's pointers point to the arena. Only between jobs. `binding` was made by
  /// Bind() of this instance, and lives until another one is selected or the methods below are not
  /// called any more.
  void Select(PlanBinding& binding);

  /// The plan that the instance was created with; null if it was created without one.
  PlanBinding* first() const { return first_.get(); }
  const Plan& plan() const { return binding_->plan(); }

  /// The launch of op `index`, with its dependencies (input copies included). The caller sets id,
  /// stream, rank and guards.
  Launch launch(std::size_t index) const { return binding_->LaunchOf(index); }
  Progress& progress(std::size_t index) { return *binding_->progress_[index]; }
  const Progress& progress(std::size_t index) const { return *binding_->progress_[index]; }
  /// The records that progress() returns, for a launch of another job that has a guard on one.
  const std::shared_ptr<ProgressRecords>& records() const { return binding_->records_; }
  /// A count of the launches of op `index` in flight. The caller counts. At first 0.
  std::uint32_t& in_flight(std::size_t index) { return binding_->ops_[index].in_flight; }
  std::uint32_t in_flight(std::size_t index) const { return binding_->ops_[index].in_flight; }

  /// Cuts op `index` as its `version` says (PlanOp::versions), until the next Reset(). Only while
  /// no block of the op is done, and no launch names the op or one that depends on it.
  void UseVersion(std::size_t index, std::uint32_t version);
  /// The version in use. 0 if the op has only one.
  std::uint32_t version(std::size_t index) const { return binding_->ops_[index].version; }

  /// Copies between host memory and the arena. `host`: the tensor's bytes; must stay valid until
  /// the copy retires.
  Copy InputCopy(std::size_t input, const void* host);
  Copy OutputCopy(std::size_t output, void* host);
  std::byte* arena(const ByteRange& range) const { return present_.base + range.offset; }

  /// Why the outputs of the last job are not valid: an engine failed. Null if they are. Only after
  /// the last op is complete, and before Reset().
  std::shared_ptr<const Error> Failure() const;
  /// What engines have made in the last job, by output of the plan; null where the output lies in
  /// the arena (PlanTensor::made). Behind them come the owners of strings in the arena
  /// (OpaqueOp::TakeStrings). Empty if there are neither. When Failure() may be called; a second
  /// call gets nulls.
  std::vector<std::shared_ptr<const MadeTensor>> TakeMade() const;

  /// Writes the whole arena, so that the system provides all its memory before the next job. Does
  /// nothing if the host cannot reach the arena, or does not own it. Only between jobs.
  void Touch();

  /// Resets all records of the selected plan for the next job, and cuts every op as the plan does.
  /// Only when no launch names these records.
  void Reset();

 private:
  struct Arena {
    Buffer memory;
    Arena* next = nullptr;  // in former_
  };
  struct Place {
    std::byte* base = nullptr;
    std::size_t bytes = 0;
  };

  Instance() = default;
  Result<Buffer> Allocate(std::size_t bytes) REQUIRES(bind_mutex_);
  void Offer(Buffer memory) REQUIRES(bind_mutex_);
  void FreeUnusedLocked() REQUIRES(bind_mutex_);
  void TakeLargerArena(std::size_t bytes);

  // For the thread that binds. largest_ only grows, except when the arena that waits is freed.
  Mutex bind_mutex_;
  DeviceControl* device_ = nullptr;         // null: the arena does not grow
  Place largest_ GUARDED_BY(bind_mutex_);   // the arena that waits; if none does, the present one
  Place replaced_ GUARDED_BY(bind_mutex_);  // while an arena waits: the present one
  // Shared with the bindings that need the arena that waits, if one does.
  std::shared_ptr<const void> claim_ GUARDED_BY(bind_mutex_);

  // Between the sides. The side that binds puts an arena that waits, and either side takes it.
  // Always larger than every arena that was put before, if it is still needed (FreeUnused()).
  std::atomic<Arena*> waiting_{nullptr};
  std::atomic<Arena*> former_{nullptr};  // a stack of replaced arenas, taken as a whole

  // For the thread that runs jobs.
  Place present_;
  std::unique_ptr<Arena> arena_;  // null: there is none, or the caller owns it
  PlanBinding* binding_ = nullptr;

  std::unique_ptr<PlanBinding> first_;
};

}  // namespace lagoon
