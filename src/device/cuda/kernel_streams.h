#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "device/cuda/driver/session.h"
#include "device/cuda/driver/unit_shares.h"
#include "device/cuda/work.h"

namespace lagoon::cuda {

/// The driver's numbers for the priorities of streams. A smaller number is a better priority.
struct PriorityRange {
  int least = 0, greatest = 0;
};

/// The CUDA streams that grids go into, some for each of the driver's stream priorities, and as
/// many again for each share. Knows which grids are in each stream, and finds the stream for the
/// next one. A stream is named by an index. Externally locked. Nothing allocates but Create() and
/// AddShare(). Create() needs the context (GpuSession::Enter()).
class KernelStreams {
 public:
  /// `depth`: most grids in one stream. Errors name the driver's call.
  static Result<std::unique_ptr<KernelStreams>> Create(std::shared_ptr<const GpuSession> session,
                                                       PriorityRange range, std::uint32_t depth);

  /// Reserves at least `units` compute units. Adds streams whose grids run on these units only.
  /// Returns the share's number, from 1. kInvalidArgument: the device has fewer units; other errors
  /// are those of UnitShares::Add(). After an error nothing has changed.
  Result<std::uint32_t> AddShare(std::uint32_t units);

  // `share`: number of the share that the launch is bound to; 0: none, it may use all units.

  /// An idle stream with a priority between the streams of worse ranks and those of better ranks;
  /// kNoIndex: there is none.
  std::uint32_t FreeStream(Rank rank, std::uint32_t share) const;
  /// True if the stream belongs to `share` and has fewer than `depth` grids.
  bool TakesMore(std::uint32_t stream, std::uint32_t share) const;
  /// True if running grids of the same or a better rank leave units free, on which `occupancy`
  /// blocks of the kernel run at once.
  bool HasRoom(Rank rank, std::uint32_t share, std::uint32_t occupancy) const;
  /// Number of blocks of all grids that are first in their streams.
  std::uint32_t BlocksInFront() const;

  Stream handle(std::uint32_t stream) const { return streams_[stream].stream->handle(); }

  /// Puts a grid at the end of issue.stream. The issue is borrowed until Remove().
  void Add(const Issue& issue) { streams_[issue.stream].issues.push_back(&issue); }
  void Remove(const Issue& issue) { std::erase(streams_[issue.stream].issues, &issue); }

 private:
  struct KernelStream {
    std::unique_ptr<MarkedStream> stream;
    std::uint32_t priority = 0;  // 0 is the lowest
    std::uint32_t share = 0;
    std::vector<const Issue*> issues = {};  // oldest first
  };

  KernelStreams(std::shared_ptr<const GpuSession> session, PriorityRange range,
                std::uint32_t depth);
  Result<OwnMemory> NewMarks() const;
  Status AddStreams(std::uint32_t share, OwnMemory marks);
  std::uint32_t UnitsFor(std::uint32_t share) const;

  const std::shared_ptr<const GpuSession> session_;
  const int least_priority_;        // the driver's number for priority 0
  const std::uint32_t priorities_;  // how many of the driver's are used
  const std::uint32_t depth_;
  UnitShares shares_;             // destroyed after their streams
  std::vector<OwnMemory> marks_;  // of the streams without a share, then of each share
  std::vector<KernelStream> streams_;
};

}  // namespace lagoon::cuda
