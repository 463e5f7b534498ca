#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/time.h"

namespace lagoon {

struct Job;

/// The job and the op or tensor that a launch in flight works for.
struct JobLaunch {
  enum class Kind : std::uint8_t { kInput, kOp, kOutput };
  Job* job = nullptr;
  Kind kind = Kind::kOp;
  std::uint32_t index = 0;       // number of the op or tensor in the plan
  std::uint32_t limit = 0;       // guard limit it was submitted with (best-effort, not padding)
  std::uint32_t revision = 0;    // limit of its slot's guard that it was submitted with
  std::uint32_t blocks = 0;      // blocks not yet done at submission; 0 once the kernel is complete
  std::uint32_t occupancy = 1;   // blocks that a unit holds at once: PlanOp::occupancy
  bool padding = false;          // leaves with a real-time kernel instead of with the group
  bool spared = false;           // real-time work does not revoke it
  bool whole = false;            // runs all blocks and may use all units: its time is a cost
  TimePoint placed{};            // when its first block began
  std::uint32_t generation = 0;  // distinguishes successive launches in the same slot
};

/// Sums over kernels in flight, of the blocks that were not done at their submission.
class BlocksInFlight {
 public:
  void Add(const JobLaunch& launch) {
    blocks_ += launch.blocks;
    load_ += LoadOf(launch);
  }
  void Remove(const JobLaunch& launch) {
    blocks_ -= launch.blocks;
    load_ -= LoadOf(launch);
  }
  /// The share of `units` units that the blocks take; above 1, some blocks find no room.
  double Fill(std::uint32_t units) const {
    return static_cast<double>(load_) / static_cast<double>(units * kUnit);
  }
  /// How many blocks find no room; only where Fill(units) is at least 1.
  double Beyond(std::uint32_t units) const {
    return (1 - 1 / Fill(units)) * static_cast<double>(blocks_);
  }

 private:
  static constexpr std::uint64_t kUnit = std::uint64_t{1} << 20;

  static std::uint64_t LoadOf(const JobLaunch& launch) {
    return launch.blocks * kUnit / launch.occupancy;
  }

  std::uint64_t blocks_ = 0;
  std::uint64_t load_ = 0;  // units that the blocks take, in kUnit-ths of a unit
};

/// Hands out launch ids and keeps a record for each, in a fixed number of slots. Allocates nothing
/// after construction.
class JobLaunches {
 public:
  explicit JobLaunches(std::uint32_t slots) : records_(slots) {
    for (std::uint32_t i = slots; i > 0; --i) free_.push_back(i - 1);
  }

  /// The slot of a launch, below the number of slots.
  static std::uint32_t SlotOf(LaunchId id) { return static_cast<std::uint32_t>(Raw(id)); }

  bool full() const { return free_.empty(); }
  std::size_t size() const { return records_.size() - free_.size(); }

  /// Sets the generation of the record.
  LaunchId Add(JobLaunch launch) {
    LAGOON_CHECK(!full() && launch.job != nullptr);
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    launch.generation = records_[slot].generation + 1;
    records_[slot] = launch;
    return LaunchId{std::uint64_t{launch.generation} << 32 | slot};
  }

  JobLaunch& Find(LaunchId id) {
    JobLaunch& record = records_[SlotOf(id)];
    LAGOON_CHECK(record.job != nullptr && record.generation == Raw(id) >> 32);
    return record;
  }

  void Remove(LaunchId id) {
    Find(id);
    records_[SlotOf(id)].job = nullptr;
    free_.push_back(SlotOf(id));
  }

 private:
  std::vector<JobLaunch> records_;
  std::vector<std::uint32_t> free_;
};

}  // namespace lagoon
