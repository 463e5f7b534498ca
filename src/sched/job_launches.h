#pragma once

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/time.h"

namespace lagoon {

struct Job;

/// What a launch in flight belongs to.
struct JobLaunch {
  enum class Kind : std::uint8_t { kInput, kOp, kOutput };
  Job* job = nullptr;
  Kind kind = Kind::kOp;
  std::uint32_t index = 0;       // of the op or tensor
  std::uint32_t limit = 0;       // of the best-effort group's guard, where the launch has it
  std::uint32_t blocks = 0;      // that were left to run then
  std::uint32_t occupancy = 1;   // of a unit by them: PlanOp::occupancy
  bool padding = false;          // guarded by a real-time kernel instead of the group
  bool whole = false;            // began with no block done, and had all units
  TimePoint placed{};            // its first block
  std::uint32_t generation = 0;  // tells a reused slot from its former launch
};

/// Launch ids and their records, in a fixed number of slots. Allocates nothing after construction.
class JobLaunches {
 public:
  explicit JobLaunches(std::uint32_t slots) : records_(slots) {
    for (std::uint32_t i = slots; i > 0; --i) free_.push_back(i - 1);
  }

  bool full() const { return free_.empty(); }
  std::size_t size() const { return records_.size() - free_.size(); }

  /// `launch`'s generation is set by the table.
  LaunchId Add(JobLaunch launch) {
    LAGOON_CHECK(!full() && launch.job != nullptr);
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    launch.generation = records_[slot].generation + 1;
    records_[slot] = launch;
    return LaunchId{std::uint64_t{launch.generation} << 32 | slot};
  }

  JobLaunch& Find(LaunchId id) {
    JobLaunch& record = records_[static_cast<std::uint32_t>(Raw(id))];
    LAGOON_CHECK(record.job != nullptr && record.generation == Raw(id) >> 32);
    return record;
  }

  void Remove(LaunchId id) {
    Find(id);
    const auto slot = static_cast<std::uint32_t>(Raw(id));
    records_[slot].job = nullptr;
    free_.push_back(slot);
  }

 private:
  std::vector<JobLaunch> records_;
  std::vector<std::uint32_t> free_;
};

}  // namespace lagoon
