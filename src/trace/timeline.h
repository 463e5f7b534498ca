#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/recorder.h"

namespace lagoon {

/// The contents of a recorder, joined: every block with its launch and job, and rows on which
/// nothing overlaps. Borrows the recorder's names.
struct Timeline {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Job {
    const TraceRecorder::Run* run = nullptr;
    const TraceRecorder::Queue* queue = nullptr;
    JobId id{};
    std::uint32_t row = 0;      // index into job_rows
    bool arrived = false;       // arrived within the trace; else it began before
    bool finished = false;      // finished within the trace; else it still ran at its end
    TimePoint begin{}, end{};   // posted and finished, cut to the trace
    std::uint32_t outcome = 0;  // an Outcome; valid if `finished`
  };
  struct Launch {
    LaunchId id{};
    TimePoint at{};
    std::uint32_t job = 0;                            // index into jobs
    const TraceRecorder::PlanNames* names = nullptr;  // null: not kept
    SchedEvent::Work work{};
    std::uint32_t index = 0;
    bool padding = false;
  };
  struct Block {
    TraceRecorder::Block record;
    std::uint32_t launch = 0;  // index into launches
    std::uint32_t row = 0;     // index into unit_rows
  };
  /// An event other than a launch and the begin or end of a job.
  struct Instant {
    SchedEvent event;
    std::uint32_t launch = kNone;  // index into launches; kNone for a revocation or depth
  };
  /// A decision about the share of a model. Of those from before the trace, each model's last one
  /// stands at the trace's begin.
  struct Share {
    TraceRecorder::ShareNote note;
    TimePoint at{};
    std::uint32_t row = 0;  // index into share_rows
  };
  struct UnitRow {
    std::uint32_t unit = 0, lane = 0;
  };
  struct JobRow {
    std::string name;
    std::uint32_t lane = 0;
  };

  std::vector<Job> jobs;
  std::vector<Launch> launches;  // sorted by id, then time
  std::vector<Block> blocks;     // sorted by row, then time
  std::vector<Instant> instants, depths;
  std::vector<UnitRow> unit_rows;
  std::vector<JobRow> job_rows;
  std::vector<Share> shares;            // sorted by time
  std::vector<std::string> share_rows;  // names of models, sorted
  TimePoint begin{}, end{};
  std::uint64_t dropped_blocks = 0;  // did not fit, or their launches are not known any more
  std::uint64_t dropped_events = 0;
};

/// The timeline begins at the first moment from which on no ring has lost a record.
Timeline MakeTimeline(const TraceRecorder& recorder);

}  // namespace lagoon
