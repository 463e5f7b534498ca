#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/recorder.h"

namespace lagoon {

/// What a recorder kept, put together: which job each block was of, and rows on which nothing
/// overlaps. Borrows the recorder's names.
struct Timeline {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Job {
    const TraceRecorder::Run* run = nullptr;
    const TraceRecorder::Queue* queue = nullptr;
    JobId id{};
    std::uint32_t row = 0;      // of job_rows
    bool arrived = false;       // within the trace; else it began before
    bool finished = false;      // within the trace; else it still ran at its end
    TimePoint begin{}, end{};   // posted and finished, or as far as the trace knows
    std::uint32_t outcome = 0;  // while finished
  };
  struct Launch {
    LaunchId id{};
    TimePoint at{};
    std::uint32_t job = 0;  // of jobs
    const TraceRecorder::PlanNames* names = nullptr;
    SchedEvent::Work work{};
    std::uint32_t index = 0;
    bool padding = false;
  };
  struct Block {
    TraceRecorder::Block record;
    std::uint32_t launch = 0;  // of launches
    std::uint32_t row = 0;     // of unit_rows
  };
  /// An event that is no launch, and neither begin nor end of a job.
  struct Instant {
    SchedEvent event;
    std::uint32_t launch = kNone;  // of launches; none: a revocation, a depth
  };
  struct UnitRow {
    std::uint32_t unit = 0, lane = 0;
  };
  struct JobRow {
    std::string name;
    std::uint32_t lane = 0;
  };

  std::vector<Job> jobs;
  std::vector<Launch> launches;  // by id, then time
  std::vector<Block> blocks;     // by row, then time
  std::vector<Instant> instants, depths;
  std::vector<UnitRow> unit_rows;
  std::vector<JobRow> job_rows;
  TimePoint begin{}, end{};
  std::uint64_t dropped_blocks = 0;  // did not fit, or nobody knows any more whose they were
  std::uint64_t dropped_events = 0;
};

/// Starts where every ring still has everything.
Timeline MakeTimeline(const TraceRecorder& recorder);

}  // namespace lagoon
