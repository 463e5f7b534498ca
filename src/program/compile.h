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
  std::string model;  // the name that messages use
  ImportOptions import;
  bool in_place = false;  // see LinkOptions
  /// Batch sizes to compile for, ascending, at least one (LoadGraphs says what the file must
  /// allow). They share the weights.
  std::vector<std::int64_t> batches = {1};
  Precision precision = Precision::kFp32;
  /// Makes the device's kernels; null: the CPU's. Borrowed: their images (Kernel::cuda) must
  /// outlive the device.
  const KernelMaker* kernels = nullptr;
};

/// A model of more kernels than this is refused: what is computed from their order is quadratic.
inline constexpr std::size_t kMaxPlanOps = 8192;

/// Compiles an ONNX file for `device`, packs the weights into device memory. Blocking: seconds for
/// a large model. At most the packed weights and the constants not packed yet are in memory at
/// once. To be shared as const once it is profiled. Errors name model, node, op and opset, and the
/// batch where there are several. Any thread; the device may be serving.
Result<std::shared_ptr<LoadedPlan>> CompileModel(const std::string& path, Device& device,
                                                 const CompileOptions& options);

/// The same for a graph in memory, folded and fused, or in that form from the start, for the one
/// batch that `options` name.
Result<std::shared_ptr<LoadedPlan>> CompileGraph(Graph graph, Device& device,
                                                 const CompileOptions& options);

/// Runs the plan `size` of `loaded` `runs` times (at least once) and replaces its costs by medians:
/// every kernel alone on the device, and the latency of the whole, copies included. The device must
/// be idle and nobody else may use it or `loaded`. kResourceExhausted: no arena; kInternal: the
/// device was lost.
Status ProfilePlan(LoadedPlan& loaded, Device& device, int runs, std::size_t size = 0);

/// Replaces the costs of `plan` by those of `measured`, the same model for another batch, times the
/// ratio of the batches. Where the two differ in their ops, only its latency is replaced.
void ScaleProfile(const Plan& measured, Plan& plan, std::uint32_t units);

/// Runs one inference of the instance's selected plan synchronously on an idle device without a
/// dispatcher: for profiling, tests and `lagoon infer`. `inputs` and `outputs`: one pointer per
/// plan tensor, of the tensor's bytes. What a launch leaves undone is submitted again. kInternal:
/// the device was lost; kUnavailable: it was not idle and took no launch.
Status RunOnce(Instance& instance, Device& device, std::span<const void* const> inputs,
               std::span<void* const> outputs);

}  // namespace lagoon
