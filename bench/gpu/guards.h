#pragma once

#include <cstdint>

#include "base/status.h"
#include "bench/report/report.h"
#include "device/cuda/driver/program.h"
#include "program/open_device.h"

namespace lagoon::bench {

struct GuardsOptions {
  DeviceChoice device = {.name = "cuda:0"};
  int rounds = 1000;  // writes by each way in each state
  std::uint32_t watchers = 16;
  std::uint32_t seed = 1;                  // for the pauses between writes
  const cuda::Program* program = nullptr;  // has ProbeEntries(); null: cuda::ProbeProgram()
};

/// Measures how soon blocks on a GPU see a word that the host writes, and the host sees their
/// answers. The word is written in four ways, on a GPU that runs only the watching blocks (idle)
/// and on one that another kernel fills (saturated). Metrics, in microseconds from the call to the
/// answer in pinned memory, for each WAY (pinned_poll, write_value32, batch_mem_op, memcpy_async)
/// and each STATE (idle, saturated):
///   guard_us_p50.WAY.STATE, guard_us_p99.WAY.STATE          the first watching block
///   guard_us_p50.WAY.STATE.all, guard_us_p99.WAY.STATE.all  the last watching block
///   guard_call_us_p50.WAY.STATE                             time that the call itself takes
Status RunGuards(const GuardsOptions& options, Report& report);

}  // namespace lagoon::bench
