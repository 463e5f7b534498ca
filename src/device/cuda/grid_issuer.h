#pragma once

#include <array>
#include <boost/container/static_vector.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "device/cuda/driver/session.h"
#include "device/cuda/gpu/grid_params.cuh"
#include "device/cuda/kernel_streams.h"
#include "device/cuda/note_ring.h"
#include "device/cuda/records.h"
#include "device/cuda/work.h"

namespace lagoon::cuda {

/// Tiles of a record that must be complete before a block of a grid begins.
struct Wait {
  const DeviceRecord* on = nullptr;
  std::uint32_t blocks = 0;
};
using Waits = boost::container::static_vector<Wait, kMaxDeps>;

/// A grid for a launch that is not on the GPU. References are borrowed for the call; `work` until
/// its note kEnded.
struct GridRequest {
  Work& work;
  const GpuKernel& kernel;
  std::uint32_t run = 0;  // the units that the launch may use (KernelStreams)
  Waits waits = {};       // not yet complete; the grid's blocks check them
  std::array<GuardRef, kGuardsPerLaunch> guards = {};
};

/// What a note of the GPU says about a launch.
struct GridNote {
  Work* work = nullptr;
  Note kind{};
  std::uint32_t value = 0;  // kCount: number of tiles of the record that are done
};

/// Issues grids and hears of their ends: which CUDA stream a grid goes into, its parameters, the
/// grids in flight, and their notes. The decision what may run, and in which order launches are
/// tried, is the device's. Sets Work::issue and Work::parked_at, and in DeviceRecord what is about
/// grids.
///
/// Externally locked, but for notes().Waiting(). Calls to the driver need the context
/// (GpuSession::Enter()). Destroyed when nothing runs on the GPU.
class GridIssuer {
 public:
  struct Options {
    std::uint32_t depth = 1;           // most grids in one CUDA stream
    std::uint32_t count_interval = 1;  // CudaDeviceOptions::count_interval
  };

  /// `records`: those of the works. Borrowed. Errors name the driver's call.
  static Result<std::unique_ptr<GridIssuer>> Create(std::shared_ptr<const GpuSession> session,
                                                    RecordPool& records, PriorityRange range,
                                                    const Options& options);

  KernelStreams& streams() { return *streams_; }

  /// Issues the grid if it is of use now and there is a stream and room for it. Then, and only
  /// then, work.issue is set. Returns a call of the driver that failed, else kSuccess. After a
  /// failure the issuer is of no use any more.
  CallResult TryIssue(const GridRequest& request);
  /// The driver refused the last launch for lack of memory or a resource. Try again soon, though
  /// there is no news.
  bool refused() const { return refused_ > 0; }
  /// Number of grids that the GPU has and that have not ended.
  std::uint32_t grids() const { return issues_live_; }
  /// Takes the next note, if there is one. After kEnded the launch may be issued again.
  std::optional<GridNote> TakeNote();

  /// Number of blocks of the grids that may run now: those that are first in their streams.
  std::uint32_t BlocksInFront() const { return streams_->BlocksInFront(); }
  const NoteRing& notes() const { return *ring_; }

 private:
  static constexpr std::uint32_t kIssues = 256;  // grids in flight

  GridIssuer(std::shared_ptr<const GpuSession> session, RecordPool& records,
             const Options& options);
  std::uint32_t StreamFor(const GridRequest& request) const;
  std::uint32_t ChainStream(const GridRequest& request) const;
  std::optional<Issue> Reserve(Work& work, std::uint32_t stream);
  CallResult Launch(const GridRequest& request, const Issue& issue);
  void FillParams(const GridRequest& request, const Issue& issue);
  void End(Issue& issue);

  const std::shared_ptr<const GpuSession> session_;
  RecordPool& records_;
  const Options options_;
  OwnMemory states_;  // an IssueState per slot of issues_
  std::unique_ptr<NoteRing> ring_;
  std::unique_ptr<KernelStreams> streams_;
  std::vector<Issue> issues_;  // by Issue::id, modulo kIssues
  std::uint32_t next_issue_ = 1;
  std::uint32_t issues_live_ = 0;
  std::uint32_t refused_ = 0;  // launches in a row
  GridParams params_{};        // of the grid being issued
};

}  // namespace lagoon::cuda
