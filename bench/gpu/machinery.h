#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/report.h"
#include "device/cuda/program.h"
#include "plan/precision.h"
#include "program/open_device.h"

namespace lagoon::bench {

/// A body of an entry, by their numbers in the program, and the entry's threads.
struct PlainBody {
  std::uint32_t entry = 0, body = 0, threads = 0;
};

/// Each of the bodies as an entry of its own (bench/gpu/plain.cuh), in their order.
std::unique_ptr<const cuda::Program> PlainProgram(std::span<const PlainBody> bodies);
std::vector<cuda::EntryName> PlainEntries(std::span<const PlainBody> bodies);

struct MachineryOptions {
  DeviceChoice device = {.name = "cuda:0"};
  std::string zoo;
  std::vector<std::string> models;
  std::int64_t batch = 1;
  Precision precision = Precision::kFp32;
  int rounds = 7;    // medians are of so many
  int repeats = 50;  // of a kernel in one CUDA graph
  /// Makes the program of plain entries; empty: PlainProgram().
  std::function<std::unique_ptr<const cuda::Program>(std::span<const PlainBody>)> plain;
};

/// What our machinery costs on a GPU: every kernel of each model as a kernel of its own body alone,
/// under its class's entry with the block protocol, and with notes to the host as well; each many
/// times in one CUDA graph, so that no launch waits for the host. Then all kernels of the model one
/// behind the other. Metrics, times in microseconds:
///   protocol_cost.MODEL        (entry and protocol) over plain, minus 1, of all kernels' sum
///   protocol_cost_most.MODEL   the same of the kernel where it is highest
///   notes_cost.MODEL           with notes over without, minus 1
///   kernels_us.MODEL.plain, .protocol, .notes       sum over the kernels
///   chain_us.MODEL.plain.launches, .graph           all kernels, launched one by one, or as a
///   chain_us.MODEL.notes.launches, .graph           graph: what CUDA graphs would save
Status RunMachinery(const MachineryOptions& options, Report& report);

}  // namespace lagoon::bench
