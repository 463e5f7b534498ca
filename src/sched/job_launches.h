#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/time.h"
#include "device/device.h"

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
  std::uint32_t begun = 0;       // those of them that have begun, as far as the device tells
  std::uint32_t done = 0;        // those of them that are done
  UnitNeed need = {};            // of a block
  bool padding = false;          // leaves with a real-time kernel instead of with the group
  bool spared = false;           // real-time work does not revoke it
  bool whole = false;            // runs all blocks and may use all units: its time is a cost
  bool slice = false;            // begins a part of its blocks (SchedulerConfig::kernel_slice)
  TimePoint placed{};            // when its first block began
  std::uint32_t generation = 0;  // distinguishes successive launches in the same slot
};

/// What the kernels in flight take of the compute units: the resources of Paella's Table 1, summed
/// over the device. Which unit gets a block is the device's choice, so the sums do not say that a
/// block finds room, only that there is none. Not thread-safe.
class UnitLedger {
 public:
  /// A kernel is in flight. `launch.begun` and `launch.done` must be 0.
  void Add(const JobLaunch& launch) {
    blocks_ += launch.blocks;
    waiting_ += launch.blocks;
    for (std::size_t i = 0; i < kResources; ++i) load_[i] += Load(launch, i, launch.blocks);
  }
  /// The kernel has no blocks on the device any more.
  void Remove(JobLaunch& launch) {
    Update(launch, launch.blocks, launch.blocks);
    launch.blocks = launch.begun = launch.done = 0;
  }
  /// So many blocks of the launch have begun, and so many are done. Counts that are smaller than
  /// known ones are late, and those beyond the launch's blocks are of blocks that began twice.
  void Update(JobLaunch& launch, std::uint32_t begun, std::uint32_t done) {
    done = std::clamp(done, launch.done, launch.blocks);
    begun = std::max(std::clamp(begun, launch.begun, launch.blocks), done);
    blocks_ -= done - launch.done;
    waiting_ -= begun - launch.begun;
    for (std::size_t i = 0; i < kResources; ++i) load_[i] -= Load(launch, i, done - launch.done);
    launch.begun = begun;
    launch.done = done;
  }

  /// The part of `units` units that the blocks take of the resource of which they take most. From 1
  /// on, some blocks find no room.
  double Fill(std::uint32_t units) const {
    const double whole = static_cast<double>(std::uint64_t{units} * kWholeUnit);
    // What a block takes may be rounded down, of three blocks by a third of a kWholeUnit-th each.
    return static_cast<double>(*std::ranges::max_element(load_) + blocks_) / whole;
  }
  /// How many blocks find no room; only where Fill(units) is at least 1.
  double Beyond(std::uint32_t units) const {
    return (1 - 1 / Fill(units)) * static_cast<double>(blocks_);
  }
  /// Blocks that have not begun.
  std::uint64_t waiting() const { return waiting_; }

 private:
  static constexpr std::size_t kResources = 4;

  static std::uint64_t Load(const JobLaunch& launch, std::size_t resource, std::uint32_t blocks) {
    const UnitNeed& need = launch.need;
    const std::array of{need.blocks, need.threads, need.registers, need.shared_bytes};
    return std::uint64_t{blocks} * of[resource];
  }

  std::uint64_t blocks_ = 0;   // not done
  std::uint64_t waiting_ = 0;  // not begun
  std::array<std::uint64_t, kResources> load_{};
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
