#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "device/cuda/driver/green_run.h"
#include "device/cuda/driver/session.h"
#include "device/cuda/work.h"

namespace lagoon::cuda {

/// The driver's numbers for the priorities of streams. A smaller number is a better priority.
struct PriorityRange {
  int least = 0, greatest = 0;
};

/// The CUDA streams that grids go into, some for each of the driver's stream priorities, and others
/// for each run of units that shares may have. Knows which grids are in each stream, and
/// finds the stream for the next one. A stream is named by an index, and so is a run: run 0 is all
/// units. Externally locked, but for Prepare(). Only Create(), Prepare() and AddRun() allocate.
/// Create() and Prepare() need the context (GpuSession::Enter()).
class KernelStreams {
 public:
  /// Streams that the device has besides these.
  static constexpr std::uint32_t kOtherStreams = 4;

  /// `depth`: most grids in one stream. Errors name the driver's call.
  static Result<std::unique_ptr<KernelStreams>> Create(std::shared_ptr<const GpuSession> session,
                                                       PriorityRange range, std::uint32_t depth);

  /// A green context and its streams, not yet in use.
  class NewRun;
  /// Creates the streams of a run. Any thread. Errors name the driver's call.
  Result<std::unique_ptr<NewRun>> Prepare(std::unique_ptr<GreenRun> green) const;
  /// Takes a new run into use, and returns its index.
  std::uint32_t AddRun(std::unique_ptr<NewRun> run);
  /// Index of the run with exactly these units; kNoIndex: there is none.
  std::uint32_t FindRun(UnitRange units) const;
  std::size_t runs() const { return runs_.size(); }
  /// Number of streams, of all runs.
  std::size_t size() const { return streams_.size(); }

  // `run`: the units that the launch may use.

  /// An idle stream of the run with a priority between the streams of worse ranks and those of
  /// better ranks; kNoIndex: there is none. The best priority is kept free of best-effort ranks.
  std::uint32_t FreeStream(Rank rank, std::uint32_t run) const;
  /// True if the stream belongs to `run` and has fewer than `depth` grids.
  bool TakesMore(std::uint32_t stream, std::uint32_t run) const;
  /// Number of blocks that the run holds at once, if a unit holds `occupancy`.
  std::uint64_t Places(std::uint32_t run, std::uint32_t occupancy) const {
    return std::uint64_t{runs_[run].units.count} * occupancy;
  }
  /// True if running grids of the same or a better rank leave units of the run free, on which
  /// `occupancy` blocks of the kernel run at once.
  bool HasRoom(Rank rank, std::uint32_t run, std::uint32_t occupancy) const;
  /// Number of blocks of all grids that are first in their streams.
  std::uint32_t BlocksInFront() const;

  Stream handle(std::uint32_t stream) const { return streams_[stream].stream->handle(); }
  /// kSuccess: all streams are idle; kNotReady: one has work; else an error of the driver.
  Code Query() const;

  /// Puts a grid at the end of issue.stream. The issue is borrowed until Remove().
  void Add(const Issue& issue) { streams_[issue.stream].issues.push_back(&issue); }
  void Remove(const Issue& issue) { std::erase(streams_[issue.stream].issues, &issue); }

 private:
  struct KernelStream {
    std::unique_ptr<MarkedStream> stream;
    std::uint32_t priority = 0;  // 0 is the lowest
    std::uint32_t run = 0;
    std::vector<const Issue*> issues = {};  // oldest first
  };
  struct Run {
    UnitRange units;
    std::unique_ptr<GreenRun> green;  // null: run 0
    OwnMemory marks;                  // words of the run's streams
  };

  KernelStreams(std::shared_ptr<const GpuSession> session, PriorityRange range,
                std::uint32_t depth);
  const std::shared_ptr<const GpuSession> session_;
  const int least_priority_;        // the driver's number for priority 0
  const std::uint32_t priorities_;  // how many of the driver's are used
  const std::uint32_t depth_;
  std::vector<Run> runs_;  // destroyed after their streams
  std::vector<KernelStream> streams_;
};

class KernelStreams::NewRun {
 private:
  friend class KernelStreams;
  Run run_;  // destroyed after its streams
  std::vector<KernelStream> streams_;
};

}  // namespace lagoon::cuda
