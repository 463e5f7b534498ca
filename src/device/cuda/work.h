#pragma once

// The records of a GpuDevice: what was submitted, what of it the GPU has, and the streams between.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "device/cuda/program.h"
#include "device/cuda/records.h"
#include "device/cuda/session.h"

namespace lagoon::cuda {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};

/// After how many tiles a kernel of `blocks` tells its progress: `asked`, or more for large ones.
inline std::uint32_t CountInterval(std::uint32_t blocks, std::uint32_t asked) {
  constexpr std::uint32_t kNotesPerRecord = 64;  // at most
  return std::max(asked, blocks / kNotesPerRecord);
}

/// A loaded kernel.
struct GpuKernel {
  std::vector<Function> functions;  // by entry, from the lightest
  const CudaImage* image = nullptr;
  std::uint32_t shared_bytes = 0;  // with the protocol's
  std::uint32_t occupancy = 1;
};

struct WorkSegment {
  KernelHandle kernel{};
  const void* args = nullptr;
  Progress* progress = nullptr;
  DeviceRecord* record = nullptr;
  std::uint32_t max_claimants = 0;
  std::span<const Dep> deps = {};
  std::array<Guard, kGuardsPerSegment> guards = {};
  bool placed = false, complete = false;  // reported
  std::uint64_t parked_at =
      0;  // of record->ends: until it moves there is nothing to claim; 0: none
};

/// A launch or copy in flight. Held by the host, then issued (in a CUDA stream), then held again if
/// it is neither complete nor revoked; or free.
struct Work {
  LaunchId id{};
  Rank rank = 0;
  std::uint64_t sequence = 0;
  StreamId stream = kUnordered;
  std::uint32_t previous_in_stream = kNone, next_in_stream = kNone;
  std::uint32_t segment_count = 0;  // 0: a copy
  std::array<WorkSegment, kMaxSegments> segments;
  std::uint32_t credits = 0;  // events that may still come
  std::uint32_t issue = kNone;
  bool started = false;  // a block of it has run
  bool live = false;
  Copy copy;
  bool copying = false;

  bool is_copy() const { return segment_count == 0; }
  std::span<WorkSegment> all() { return std::span(segments).first(segment_count); }
  std::span<const WorkSegment> all() const { return std::span(segments).first(segment_count); }
};

/// A grid in a CUDA stream, until its last block has left.
struct Issue {
  std::uint32_t work = kNone;  // kNone: free
  std::uint32_t id = 0;        // tag of its words on the GPU
  std::uint32_t stream = 0;    // index
  std::uint32_t grid = 0;
  std::uint32_t notes = 0;     // room that it holds in the ring
  std::uint32_t segments = 0;  // bit s: segment s takes part
};

/// A CUDA stream for kernels and what is in it, oldest first.
struct KernelStream {
  std::unique_ptr<MarkedStream> stream;
  std::uint32_t level = 0;  // of priority, 0 is the lowest
  std::uint32_t share = 0;  // whose units its kernels run on, from 1; 0: all units
  std::vector<std::uint32_t> issues;
};

/// Integrals of busy and idle units over time, as the host sees them: from a grid's launch to its
/// end it takes as many units as it has blocks.
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
