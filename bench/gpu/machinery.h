#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/report/report.h"
#include "device/cuda/driver/program.h"
#include "plan/precision.h"
#include "program/open_device.h"

namespace lagoon::bench {

/// A body of an entry (both by their numbers in the program), and the entry's threads per block.
struct PlainBody {
  std::uint32_t body = 0, threads = 0;
};

/// A program with one entry for each of the bodies (bench/gpu/plain.cuh), in their order, and the
/// names of these entries.
std::unique_ptr<const cuda::Program> PlainProgram(std::span<const PlainBody> bodies);
std::vector<cuda::EntryName> PlainEntries(std::span<const PlainBody> bodies);

struct MachineryOptions {
  DeviceChoice device = {.name = "cuda:0"};
  std::string zoo;
  std::vector<std::string> models;
  std::int64_t batch = 1;
  Precision precision = Precision::kFp32;
  int rounds = 7;    // measurements behind each median
  int repeats = 50;  // launches of a kernel in one CUDA graph
  /// Makes the program of plain entries; empty: PlainProgram().
  std::function<std::unique_ptr<const cuda::Program>(std::span<const PlainBody>)> plain;
};

/// Measures what our machinery costs on a GPU. Every kernel of each model runs in three variants:
///   plain      an entry with the kernel's body alone
///   protocol   the entry of its class, with the block protocol
///   notes      the same, and with notes to the host
/// Each variant runs many times in one CUDA graph, so that no launch waits for the host. Then all
/// kernels of the model run one after the other. Metrics, times in microseconds:
///   protocol_cost.MODEL        protocol over plain, minus 1, for the sum of all kernels
///   protocol_cost_most.MODEL   the same for the kernel with the highest cost
///   notes_cost.MODEL           notes over protocol, minus 1, for the sum of all kernels
///   kernels_us.MODEL.plain, .protocol, .notes       sum over the kernels
///   chain_us.MODEL.plain.launches, .graph           all kernels, launched one by one or as a
///   chain_us.MODEL.notes.launches, .graph           graph: graphs would save the difference
Status RunMachinery(const MachineryOptions& options, Report& report);

}  // namespace lagoon::bench
