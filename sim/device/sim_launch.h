#pragma once

#include <atomic>
#include <cstdint>

#include "device/host/in_flight.h"
#include "sim/device/units.h"

namespace lagoon {

inline constexpr std::uint64_t kNeverTried = ~std::uint64_t{0};

/// A launch or copy in flight on a simulated GPU (SimEngine), or a free slot for one.
struct SimLaunch : InFlight {
  /// In this order; from each of them a launch can retire.
  enum class State : std::uint8_t {
    kArriving,  // during its launch latency
    kWaiting,   // in its hardware queue, or for its dependencies
    kGap,       // the bubble before a queued successor
    kReady,     // waits for the front end
    kStarted,   // may place blocks
  };

  const SimKernel* kernel = nullptr;  // null: a copy
  std::uint64_t turn = 0;  // number in order of becoming ready; equal ranks take turns by it
  State state = State::kArriving;
  bool left_stream = false;            // its stream has moved on
  bool evicted = false;                // revoked, and counted among the evictions of its queue
  bool active = false;                 // may place blocks, or start a chunk
  bool killed = false;                 // happens only once
  std::uint32_t running = 0;           // number of blocks
  std::uint32_t placed = 0, done = 0;  // blocks that have begun and that are done
  std::uint32_t groups = kNoIndex;     // list of its running blocks (BlockGroups)
  std::uint64_t no_room_since = kNeverTried;  // number of gives when no block fitted

  const std::atomic<std::uint32_t>* pads = nullptr;  // SimOptions::joined_padding

  // HardwareQueues:
  std::uint32_t lane = 0;    // its queue; kNoIndex: padding, which starts without one
  bool in_queue = false;     // linked in the queue
  bool holds_queue = false;  // unordered, and occupies a queue: it has blocks to place
  std::uint32_t queue_before = kNoIndex, queue_after = kNoIndex;
  std::uint32_t front = kNoIndex;  // index among the Fronts

  /// Launch::most_blocks have begun.
  bool Spent() const { return most_blocks != 0 && placed >= most_blocks; }
};

using SimLaunches = InFlightSlots<SimLaunch>;

}  // namespace lagoon
