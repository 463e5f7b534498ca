#include "program/profile/machine_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "kernels/peak.h"
#include "program/link/link.h"
#include "program/profile/profile_run.h"

namespace lagoon {
namespace {

/// Every second-level cache of an x86-64 CPU holds so much beside other things.
constexpr std::size_t kNearBytes = 192 << 10;
constexpr std::size_t kFarBytes = 128 << 20;  // more than most third-level caches
constexpr int kRuns = 5;

/// Loops that all read one input.
LoweredProgram Loops(std::uint32_t units) {
  const std::uint32_t blocks = units * 4;  // so that a unit which is held up costs little
  const std::size_t piece = kFarBytes / blocks / 4096 * 4096;
  const std::size_t bytes = std::max(piece, kNearBytes) * blocks;
  LoweredProgram program;
  program.buffers.push_back({"x", bytes, false, {}});
  program.inputs.push_back({{"x", DataType::kUInt8, {static_cast<std::int64_t>(bytes)}}, {}});
  const auto add = [&](Kernel kernel, std::size_t read) {
    const auto y = static_cast<BufferId>(program.buffers.size());
    const Dims dims{static_cast<std::int64_t>(kernel.blocks)};
    const TensorSpec spec{kernel.name, DataType::kFloat32, dims};
    program.buffers.push_back({spec.name, spec.bytes(), false, {}});
    program.outputs.push_back({spec, y});
    LoweredOp op{spec.name, std::move(kernel), {}, {{y, 0, spec.bytes()}}};
    if (read > 0) op.inputs.push_back({BufferId{0}, 0, read});
    program.ops.push_back(std::move(op));
  };
  add(MakePeakFlops(blocks), 0);
  add(MakePeakRead({blocks, kNearBytes, 64}), kNearBytes * blocks);
  add(MakePeakRead({blocks, piece, 1}), piece * blocks);
  return program;
}

double RateOf(double work, Nanoseconds time) {
  return work / ToMicroseconds(std::max(time, Nanoseconds(1)));
}

}  // namespace

Result<MachineRates> MeasureRates(Device& device) {
  const DeviceInfo& info = device.info();
  if (!info.computes || !info.blocks_on_host) {
    return Fail(
        ErrorCode::kUnimplemented,
        fmt::format("device '{}': what it could reach is measured on CPUs only", info.name));
  }
  const std::uint32_t units = std::max(info.units, 1U);
  const LoweredProgram program = Loops(units);
  PackedWeights none;
  none.offsets.resize(program.buffers.size());
  LoadedPlan loaded;
  LAGOON_ASSIGN_OR_RETURN(loaded.plan, LinkPlan(program, none, device, {"rates"}));
  LAGOON_ASSIGN_OR_RETURN(const std::vector<Nanoseconds> times,
                          MeasureKernels(loaded, device, kRuns));
  MachineRates rates;
  rates.flops_per_us = RateOf(program.ops[0].kernel.flops, times[0]);
  rates.near_bytes_per_us = RateOf(program.ops[1].kernel.bytes_moved, times[1]);
  rates.far_bytes_per_us = RateOf(program.ops[2].kernel.bytes_moved, times[2]);
  rates.near_bytes = static_cast<double>(kNearBytes) * units;
  return rates;
}

}  // namespace lagoon
