#pragma once

#include <cstdint>

#include "base/status.h"
#include "bench/report/report.h"
#include "device/cuda/driver/program.h"
#include "program/open_device.h"

namespace lagoon::bench {

struct IsolationOptions {
  DeviceChoice device;
  int rounds = 1000;                  // real-time launches of each mode, in all windows together
  int windows = 8;                    // of each mode, in random order
  double best_effort_block_us = 100;  // time of a block, in pieces of piece_us
  double real_time_block_us = 20;
  double piece_us = 10;
  std::uint32_t seed = 1;                  // for the pauses between real-time launches
  const cuda::Program* program = nullptr;  // has ProbeEntries(); null: cuda::ProbeProgram()
};

/// Measures how well each mechanism of a device keeps best-effort work away from real-time work: a
/// real-time kernel with a block for every fourth unit is launched again and again beside a
/// best-effort kernel that fills the device. Modes:
///   alone      without best-effort work
///   priority   the real-time launch has a more urgent rank, nothing else
///   guard      best-effort blocks that have not begun leave
///   abort      running best-effort blocks leave, too, at their next check
///   share      each side has units of its own
/// Metrics, in microseconds from the launch:
///   isolation_placed_us_p50.MODE, _p99.MODE      the first real-time block has begun
///   isolation_complete_us_p50.MODE, _p99.MODE    the last real-time block has ended
///   isolation_best_effort_share.MODE             best-effort blocks a second, relative to those
///                                                without real-time work; median over trials
///   isolation_best_effort_places                 best-effort blocks that the device holds at
///                                                once; fewer blocks end less often
/// All but the last have intervals over the windows that the host did not disturb
/// (bench/measure/evidence.h).
/// The field "refused" names the modes that the device refuses, with its error message.
Status RunIsolation(const IsolationOptions& options, Report& report);

}  // namespace lagoon::bench
