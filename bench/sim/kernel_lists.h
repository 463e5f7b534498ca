#pragma once

// Models as lists of kernels, for simulated devices (docs/design/simulator.md). A list of a GPU
// follows from a paper's statistics and a fixed seed; it never comes from another GPU. The lists of
// CPUs were measured (cpu_kernel_lists.h).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "plan/plan.h"
#include "sim/device/gpu_model.h"

namespace lagoon {

/// What is published about a model on a device. Unpublished fields are assumed; `source` says
/// which.
struct SimModelStatistics {
  std::string_view device;  // name of the GPU model
  std::string_view model;
  std::uint32_t kernels = 0;
  Nanoseconds time{0};      // one execution alone, gaps between kernels included
  Nanoseconds shortest{0};  // shortest kernel
  Nanoseconds longest{0};   // longest kernel; 0: follows from the other fields
  std::uint32_t skew = 3;   // kernel times follow a uniform number to this power
  double least_use = 0;     // least fraction of the units that a kernel uses
  double mean_use = 0;      // mean fraction, weighted with time
  double most_use = 1;
  Nanoseconds block{0};  // time of a block of a kernel that fills the device; 0: half of the kernel
  /// Whether a block fills its unit, so that a kernel on half of its units takes twice as long. If
  /// not, four blocks fit into a unit, and do not slow each other down.
  bool whole_units = false;
  std::uint32_t not_idempotent = 0;  // kernels that restart with a group, spread over the list
  std::string_view source;
};

struct SimModelKernel {
  std::uint32_t blocks = 0;
  BlockDemand block;
  Nanoseconds time{0};  // the whole kernel, alone on the device
  /// Indexes of the kernels that it depends on; nullopt: the one before.
  std::optional<std::vector<std::uint32_t>> deps = {};
  Restart restart = Restart::kByClaims;
  std::uint32_t group_first = 0;  // PlanOp::group_first
};

/// A model's kernels, in an order in which they may run.
struct SimModel {
  SimModelStatistics statistics;
  std::vector<SimModelKernel> kernels = {};
  std::vector<std::uint32_t> part_ends = {};  // Plan::part_ends; empty: one part
  std::vector<std::uint32_t> cut_ops = {};    // Plan::cut_ops
  std::string name = {};                      // of a user's model; empty: statistics.model

  std::string Name() const { return name.empty() ? std::string(statistics.model) : name; }
};

/// A kernel that takes `time` and fills the device, in as many waves as blocks of `block` need; at
/// least, and with a `block` of 0, in two. `units`: SimConstants::units.
SimModelKernel FullKernel(Nanoseconds time, std::uint32_t units, Nanoseconds block);

/// The list of a model of a built-in device for another device, with the times of the built-in
/// one. Errors as those of MakeSimModel().
Result<SimModel> MakeSimModelFor(const GpuModel& gpu, std::string_view built_in,
                                 std::string_view model);

/// All models of all simulated GPUs.
std::span<const SimModelStatistics> SimModelTable();

/// kNotFound names the models that the device has.
Result<SimModel> MakeSimModel(std::string_view device, std::string_view model);

/// kInvalidArgument names the fields of `statistics` that contradict each other. `units` and `gap`:
/// the device's SimConstants::units and dependent_gap_ns.
Result<SimModel> MakeSimModel(const SimModelStatistics& statistics, std::uint32_t units,
                              Nanoseconds gap);

}  // namespace lagoon
