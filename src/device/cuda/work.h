#pragma once

// The records of a GpuDevice: loaded kernels, launches in flight, grids on the GPU, and the times
// of the compute units.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "device/cuda/driver/program.h"
#include "device/cuda/driver/session.h"
#include "device/cuda/records.h"
#include "device/host/in_flight.h"

namespace lagoon::cuda {

/// Number of tiles after which a kernel of `blocks` tiles reports: `asked`, or more for large
/// kernels.
inline std::uint32_t CountInterval(std::uint32_t blocks, std::uint32_t asked) {
  constexpr std::uint32_t kNotesPerRecord = 64;  // at most
  return std::max(asked, blocks / kNotesPerRecord);
}

/// A loaded kernel.
struct GpuKernel {
  Function function = nullptr;
  CudaImage image;
  std::uint32_t shared_bytes = 0;  // the protocol's part included
  std::uint32_t occupancy = 1;

  /// Kernels of equal keys are the same.
  using Key =
      std::tuple<const Program*, std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;
  Key key() const {
    return {image.program, image.body, image.entry, image.args_bytes, shared_bytes};
  }
};

struct Issue;

/// A launch or copy in flight: held by the host, then issued into a CUDA stream, then held again if
/// it is neither complete nor revoked. Or a free slot.
struct Work : InFlight {
  KernelHandle kernel{};
  DeviceRecord* record = nullptr;  // null: a copy, or complete when it was submitted
  bool complete = false;           // reported already
  bool copying = false;
  const Issue* issue = nullptr;  // its grid on the GPU
  /// record->ends + 1 when this launch's last grid ended; 0: no grid yet. Until another grid of
  /// the record ends, a new grid would find no tile to claim.
  std::uint64_t parked_at = 0;
};

/// A grid in a CUDA stream, until its last block has left.
struct Issue {
  Work* work = nullptr;      // null: free
  std::uint32_t id = 0;      // tag of the issue's words on the GPU
  std::uint32_t stream = 0;  // index of the CUDA stream (KernelStreams)
  std::uint32_t grid = 0;    // number of blocks
  std::uint32_t notes = 0;   // room reserved in the ring
};

/// Integrals of busy and idle units over time, as the host sees them. A grid counts for as many
/// units as it has blocks, from its launch to its end.
class UnitMeter {
 public:
  UnitMeter(std::uint32_t units, TimePoint now) : units_(units), last_(now) {}

  void Advance(TimePoint now) {
    const Nanoseconds passed = now - last_;
    last_ = now;
    times_.busy += passed * in_use_;
    times_.idle += passed * (units_ - in_use_);
    if (held_) times_.idle_while_ready += passed * (units_ - in_use_);
  }
  void SetBlocks(std::uint32_t blocks, TimePoint now) {
    Advance(now);
    in_use_ = std::min(blocks, units_);
  }
  void SetHeld(bool held, TimePoint now) {
    Advance(now);
    held_ = held;
  }
  const UnitTimes& times() const { return times_; }

 private:
  std::uint32_t units_;
  std::uint32_t in_use_ = 0;
  bool held_ = false;
  TimePoint last_;
  UnitTimes times_;
};

}  // namespace lagoon::cuda
