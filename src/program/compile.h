#pragma once

// Graph -> Plan: layout, lowering, memory plan, access sets, and the standalone profile.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "graph/graph.h"
#include "graph/onnx_model.h"
#include "kernels/kernel_maker.h"
#include "plan/instance.h"
#include "plan/plan.h"
#include "plan/precision.h"
#include "program/link/weight_store.h"

namespace lagoon {

struct CompileOptions {
  std::string model;  // name for messages
  ImportOptions import;
  bool in_place = false;                 // see LinkOptions
  Restart restart = Restart::kByClaims;  // LinkOptions::restart
  /// True if plans for several shapes may share the weights, which are then packed in the form for
  /// any number of rows. Without effect on a model whose file fixes all shapes.
  bool many_shapes = false;
  Precision precision = Precision::kFp32;
  /// Whether plans have all versions of their kernels (OpVersion), to be measured or found in a
  /// profile: a fifth of the time that a later plan takes.
  bool all_versions = true;
  /// Makes the device's kernels; null: the CPU's. Borrowed; the kernels' images (Kernel::cuda) must
  /// outlive the device.
  const KernelMaker* kernels = nullptr;
  /// Of the device: models with equal weights share them. Null: no other model has this one's.
  /// Borrowed while the model is read.
  WeightStores* weights = nullptr;
};

/// A model with more kernels is refused, because ordering them takes quadratic time and memory.
inline constexpr std::size_t kMaxPlanOps = 8192;

/// The plan of one part of a model, and what is behind it. The outputs of the plan are those of the
/// part's graph.
struct CompiledPart {
  std::shared_ptr<LoadedPlan> loaded;
  PartLinks links;
};

/// A model that is compiled for one set of input shapes after the other. Its plans share the
/// packed weights, also with other models (CompileOptions::weights). Not thread-safe, but any
/// thread may use it while the device serves requests.
class ModelCompiler {
 public:
  /// Reads the file: seconds for a large model. `device` outlives the compiler and its plans.
  static Result<std::unique_ptr<ModelCompiler>> Read(const std::string& path, Device& device,
                                                     CompileOptions options);

  const OnnxModel& model() const { return *model_; }

  /// The plan for these inputs: of the first part, if the model runs in parts. The first one packs
  /// the weights, which takes seconds for a large model; later ones take milliseconds. Memory holds
  /// at most the packed weights and the constants that are not packed yet. Costs are estimates:
  /// share the result as const after profiling. Errors name model, node, op and opset. `deciding`:
  /// see OnnxModel::Import.
  Result<CompiledPart> Compile(const GraphInputs& inputs,
                               std::vector<std::size_t>* deciding = nullptr) {
    return CompilePart(*model_, inputs, deciding);
  }
  /// The same for a later part of this model (PartLinks::next).
  Result<CompiledPart> CompilePart(const OnnxModel& part, const GraphInputs& inputs,
                                   std::vector<std::size_t>* deciding = nullptr);

 private:
  ModelCompiler(std::unique_ptr<OnnxModel> model, Device& device, CompileOptions options);

  const std::unique_ptr<OnnxModel> model_;
  Device& device_;
  const CompileOptions options_;
  const std::shared_ptr<WeightStore> weights_;
};

/// Compiles an ONNX file for inputs of its default shapes (OnnxModel::DefaultInputs).
/// kUnimplemented: the model runs in parts.
Result<std::shared_ptr<LoadedPlan>> CompileModel(const std::string& path, Device& device,
                                                 const CompileOptions& options);

/// The same for a graph in memory, which must be folded and fused or equivalent.
Result<std::shared_ptr<LoadedPlan>> CompileGraph(Graph graph, Device& device,
                                                 const CompileOptions& options);

/// Expected time of a graph, which must be folded and fused or equivalent, on one core without
/// other work: an estimate from its operations and bytes, as the costs of a plan without a profile.
Result<Nanoseconds> EstimateTime(Graph graph, const std::string& model);

/// Runs the plan `runs` times (at least once) and replaces its costs by medians:
/// the time of every kernel alone on the device, and the latency of the whole run, copies included.
/// The device must be idle, and no other code may use the device or `loaded` meanwhile.
/// kResourceExhausted: no memory for an arena; kInternal: the device was lost.
Status ProfilePlan(LoadedPlan& loaded, Device& device, int runs);

/// Gives `plan` the costs of `measured`, a plan of the same model for other shapes: of each op with
/// an equal name, scaled by the ratio of the two estimates, and its choice of version if `measured`
/// still has versions (DropUnmeasuredVersions).
void ScaleProfile(const Plan& measured, Plan& plan, std::uint32_t units);

/// Runs one inference of the instance's selected plan synchronously, without a dispatcher, on an
/// idle device: for profiling, tests and `lagoon infer`. `inputs` and `outputs`: one pointer per
/// plan tensor, to as many bytes as the tensor has. Launches that retire incomplete are submitted
/// again. kInternal: the device was lost; kUnavailable: the device was not idle and refused a
/// launch.
Status RunOnce(Instance& instance, Device& device, std::span<const void* const> inputs,
               std::span<void* const> outputs);

}  // namespace lagoon
