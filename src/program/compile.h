#pragma once

// Graph -> Plan: layout, lowering, memory plan, access sets, and the standalone profile.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "graph/graph.h"
#include "kernels/kernel_maker.h"
#include "plan/instance.h"
#include "plan/plan.h"
#include "plan/precision.h"

namespace lagoon {

struct CompileOptions {
  std::string model;  // name for messages
  ImportOptions import;
  bool in_place = false;  // see LinkOptions
  /// Batch sizes to compile for, ascending, at least one (LoadGraphs says what the file must
  /// allow). Their plans share the weights.
  std::vector<std::int64_t> batches = {1};
  Precision precision = Precision::kFp32;
  /// Makes the device's kernels; null: the CPU's. Borrowed; the kernels' images (Kernel::cuda) must
  /// outlive the device.
  const KernelMaker* kernels = nullptr;
};

/// A model with more kernels is refused, because ordering them takes quadratic time and memory.
inline constexpr std::size_t kMaxPlanOps = 8192;

/// Compiles an ONNX file for `device` and packs the weights into device memory. Blocking: seconds
/// for a large model. Memory holds at most the packed weights and the constants that are not packed
/// yet. Share the result as const only after profiling. Errors name model, node, op and opset, and
/// the batch if there are several. Any thread; the device may be serving requests.
Result<std::shared_ptr<LoadedPlan>> CompileModel(const std::string& path, Device& device,
                                                 const CompileOptions& options);

/// The same for a graph in memory, which must be folded and fused or equivalent, for the one batch
/// size in `options`.
Result<std::shared_ptr<LoadedPlan>> CompileGraph(Graph graph, Device& device,
                                                 const CompileOptions& options);

/// Runs the plan `size` of `loaded` `runs` times (at least once) and replaces its costs by medians:
/// the time of every kernel alone on the device, and the latency of the whole run, copies included.
/// The device must be idle, and no other code may use the device or `loaded` meanwhile.
/// kResourceExhausted: no memory for an arena; kInternal: the device was lost.
Status ProfilePlan(LoadedPlan& loaded, Device& device, int runs, std::size_t size = 0);

/// Replaces the costs of `plan` by those of `measured`, the plan of the same model for another
/// batch size, times the ratio of the batch sizes. If the two plans have different ops, replaces
/// only the latency.
void ScaleProfile(const Plan& measured, Plan& plan, std::uint32_t units);

/// Runs one inference of the instance's selected plan synchronously, without a dispatcher, on an
/// idle device: for profiling, tests and `lagoon infer`. `inputs` and `outputs`: one pointer per
/// plan tensor, to as many bytes as the tensor has. Launches that retire incomplete are submitted
/// again. kInternal: the device was lost; kUnavailable: the device was not idle and refused a
/// launch.
Status RunOnce(Instance& instance, Device& device, std::span<const void* const> inputs,
               std::span<void* const> outputs);

}  // namespace lagoon
