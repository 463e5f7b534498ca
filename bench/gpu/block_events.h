#pragma once

#include <cstdint>

#include "base/status.h"
#include "bench/report/report.h"
#include "device/cuda/driver/program.h"
#include "program/open_device.h"

namespace lagoon::bench {

struct BlockEventsOptions {
  DeviceChoice device;
  int rounds = 1000;  // launches of each case, in all windows together
  int windows = 8;    // of each case, interleaved
  std::uint32_t seed = 1;
  const cuda::Program* program = nullptr;  // has ProbeEntries(); null: cuda::ProbeProgram()
};

/// Measures what it costs a kernel that the device reports blocks while they run (Paella 8.1,
/// Figure 15): a kernel of 16 or 160 empty blocks runs alone. Ways: `none` reports no blocks,
/// `often` as often as a device can (Launch::tell_every 1), `every16` at most every 16th. A
/// listener reads the reports, as in a dispatcher: a thread that waits for the device would be
/// woken by each, and take a core from the workers. Metrics, for a case C such as `b160.often`:
///   kernel_us_p50.C, _p90         from the first block's begin to the last one's end
///   seen_us_p50.C, _p90           from the call of Submit() until the host has the end
///   events_per_launch.C           what the host reads of a launch
/// The p90 have intervals over the windows that the host did not disturb
/// (bench/measure/evidence.h). kUnimplemented: the device does not report blocks.
Status RunBlockEvents(const BlockEventsOptions& options, Report& report);

}  // namespace lagoon::bench
