#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace lagoon {

class Instance;

/// The progress records of a binding. Shared: a launch of another job may have a guard that counts
/// blocks of a record here, and the submitter of such a launch keeps the records until the launch
/// has retired.
class ProgressRecords {
 public:
  explicit ProgressRecords(const Plan& plan);

  /// The ops, then the inputs, then the outputs.
  Progress& at(std::size_t index) { return records_[index]; }
  std::size_t size() const { return records_.size(); }
  std::size_t bytes() const {
    return word_count_ * sizeof(words_[0]) + records_.size() * sizeof(Progress);
  }

 private:
  std::size_t word_count_ = 0;
  std::unique_ptr<std::atomic<std::uint64_t>[]> words_;  // bitmaps of all records
  std::deque<Progress> records_;
};

/// A plan made ready to run on one instance: launches, one progress record per op, and one per
/// input and output for its copy. Made by Instance::Bind(). Keeps the plan and its weights, but no
/// arena. It may outlive the instance. Destroy it on any thread, when no job runs it any more.
class PlanBinding {
 public:
  PlanBinding(const PlanBinding&) = delete;
  PlanBinding& operator=(const PlanBinding&) = delete;

  const LoadedPlan& loaded() const { return *loaded_; }
  const Plan& plan() const { return loaded_->plan; }
  /// Memory that the binding takes: about right.
  std::size_t bytes() const;

 private:
  friend class Instance;

  /// What jobs need of an op.
  struct Op {
    KernelHandle kernel{};
    std::uint32_t image = 0;      // of the arguments: offset in images_
    std::uint32_t first_dep = 0;  // in deps_
    std::uint32_t deps = 0;
    std::uint32_t version = 0;    // the one in use
    std::uint32_t in_flight = 0;  // Instance::in_flight()
  };
  /// A pointer in an image to the arena.
  struct ArenaPointer {
    std::uint32_t place = 0;  // offset in images_
    std::size_t target = 0;   // offset in the arena
  };

  PlanBinding(const Instance& instance, std::shared_ptr<const LoadedPlan> loaded);
  void AddOp(std::size_t index, std::uint32_t image);
  void AddDep(std::uint32_t on);
  void AddOutputs();
  void WriteImage(const PlanOp& op, const std::vector<std::byte>& args, std::byte* image) const;
  Launch LaunchOf(std::size_t index) const;
  void PointTo(std::byte* arena);
  void Recut(std::size_t index, std::uint32_t version);
  void Reset();

  const Instance* const instance_;  // only compared: says where the binding may be selected
  const std::shared_ptr<const LoadedPlan> loaded_;
  const std::shared_ptr<ProgressRecords> records_;
  std::vector<Progress*> progress_;            // as in records_
  std::vector<std::byte> args_;                // images of all ops, of their versions in use
  std::byte* images_ = nullptr;                // the first image in args_
  std::byte* arena_ = nullptr;                 // the arena that the images point to
  bool past_caches_ = false;                   // Copy::past_caches of all copies
  std::vector<Dep> deps_;                      // of all ops, then of all outputs
  std::vector<std::span<const Dep>> outputs_;  // by output: its part of deps_
  // By op: the deps that refer to it, if it has versions. Empty if no op has.
  std::vector<std::vector<Dep*>> dependents_;
  std::vector<ArenaPointer> arena_pointers_;  // of all ops
  std::vector<Op> ops_;
  std::vector<std::size_t> recut_;     // ops whose version is not the plan's
  std::shared_ptr<const void> claim_;  // on the arena that waits: Instance::claim_
};

}  // namespace lagoon
