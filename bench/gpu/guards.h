#pragma once

#include <cstdint>

#include "base/status.h"
#include "bench/report.h"
#include "device/cuda/program.h"
#include "program/open_device.h"

namespace lagoon::bench {

struct GuardsOptions {
  DeviceChoice device = {.name = "cuda:0"};
  int rounds = 1000;  // writes of each way in each state
  std::uint32_t watchers = 16;
  std::uint32_t seed = 1;                  // of the pauses between writes
  const cuda::Program* program = nullptr;  // of ProbeEntries(); null: cuda::ProbeProgram()
};

/// How soon blocks on a GPU see a word that the host writes, and the host hears of it: by four
/// ways, on a GPU that is idle but for the blocks that watch, and on one that another kernel
/// saturates. Metrics, in microseconds from the call to the answer in pinned memory, for a WAY of
/// pinned_poll, write_value32, batch_mem_op and memcpy_async, and a STATE of idle and saturated:
///   guard_us_p50.WAY.STATE, guard_us_p99.WAY.STATE         the first watching block
///   guard_us_p50.WAY.STATE.all, guard_us_p99.WAY.STATE.all the last of them
///   guard_call_us_p50.WAY.STATE                            what the call takes of the caller's
///   time
Status RunGuards(const GuardsOptions& options, Report& report);

}  // namespace lagoon::bench
