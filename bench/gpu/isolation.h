#pragma once

#include <cstdint>

#include "base/status.h"
#include "bench/report.h"
#include "device/cuda/program.h"
#include "program/open_device.h"

namespace lagoon::bench {

struct IsolationOptions {
  DeviceChoice device;
  int rounds = 1000;                  // real-time launches of each mode, of all windows together
  int windows = 8;                    // of each mode, in random order
  double best_effort_block_us = 100;  // in pieces of piece_us
  double real_time_block_us = 20;
  double piece_us = 10;
  std::uint32_t seed = 1;                  // of the pauses between real-time launches
  const cuda::Program* program = nullptr;  // of ProbeEntries(); null: cuda::ProbeProgram()
};

/// How well a device keeps best-effort work away from real-time work, by what it is told: a kernel
/// of a quarter of the units' blocks is launched again and again beside one that fills the device.
/// MODES: alone; priority (its rank, nothing else); guard (best-effort blocks that have not begun
/// leave); abort (those that run leave, too, at their next check); share (each side has units of
/// its own). Metrics, in microseconds from the launch:
///   isolation_placed_us_p50.MODE, _p99.MODE      the first real-time block has begun
///   isolation_complete_us_p50.MODE, _p99.MODE    the last one has ended
///   isolation_best_effort_share.MODE             of the blocks that best-effort work does alone,
///   as
///                                                a median over trials
/// All have intervals over the windows that the host did not disturb (bench/evidence.h).
/// A mode that the device refuses is named in the field "refused", with its words.
Status RunIsolation(const IsolationOptions& options, Report& report);

}  // namespace lagoon::bench
