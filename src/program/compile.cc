#include "program/compile.h"

#include <fmt/format.h>

#include <utility>

#include "base/guard.h"
#include "base/heap.h"
#include "engine/engine_host.h"
#include "kernels/cpu_kernels.h"
#include "program/link/check_plan.h"
#include "program/link/link.h"
#include "program/lower/builder.h"

namespace lagoon {
namespace {

/// Packing so many bytes leaves much freed memory behind.
constexpr std::size_t kMuchPacked = std::size_t{1} << 20;

Result<LoweredProgram> LowerGraph(Graph graph, const CompileOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(LoweredProgram program, Lower(std::move(graph), options.model,
                                                        {options.precision, options.many_shapes,
                                                         options.kernels, options.all_versions}));
  if (program.ops.size() <= kMaxPlanOps) return program;
  return Fail(
      ErrorCode::kResourceExhausted,
      fmt::format("model '{}': compiles to {} kernels, more than the {} that a model may have "
                  "beside its limit of {} nodes; split it into several models",
                  options.model, program.ops.size(), kMaxPlanOps, kMaxGraphNodes));
}

Result<std::shared_ptr<LoadedPlan>> BuildPlan(LoweredProgram program, WeightStore& store,
                                              Device& device, const CompileOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(PackedWeights weights, store.Pack(program));
  auto loaded = std::make_shared<LoadedPlan>();
  LAGOON_ASSIGN_OR_RETURN(
      loaded->plan,
      LinkPlan(program, weights, device, {options.model, options.in_place, options.restart}));
  if (const std::size_t most = options.import.max_bytes; loaded->plan.arena_bytes > most) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("its inputs, outputs and activations need {} bytes at a time, the "
                            "limit is {}",
                            loaded->plan.arena_bytes, most));
  }
  LAGOON_RETURN_IF_ERROR(CheckPlan(loaded->plan, weights.chunks));
  loaded->weights = std::move(weights.chunks);
  return loaded;
}

Status CheckPrecision(const CompileOptions& options) {
  const KernelMaker& kernels = options.kernels == nullptr ? CpuKernels() : *options.kernels;
  Status able = kernels.CheckPrecision(options.precision);
  if (!able) return Annotate(fmt::format("model '{}'", options.model), std::move(able).error());
  return {};
}

Result<std::shared_ptr<LoadedPlan>> CompileWith(Graph graph, WeightStore& store, Device& device,
                                                const CompileOptions& options) {
  const RequestWork work = graph.work;
  LAGOON_RETURN_IF_ERROR(work.CheckWanted());
  auto program = WithoutExceptions([&] { return LowerGraph(std::move(graph), options); });
  if (!program) return tl::unexpected(std::move(program).error());
  LAGOON_RETURN_IF_ERROR(work.CheckWanted());
  const std::size_t packed = store.packed_bytes();
  auto loaded =
      WithoutExceptions([&] { return BuildPlan(*std::move(program), store, device, options); });
  // Not for every shape: it holds the locks of the heap, which other threads need.
  if (store.packed_bytes() - packed >= kMuchPacked) ReturnFreedMemory();
  if (!loaded) return Annotate(fmt::format("model '{}'", options.model), std::move(loaded).error());
  return loaded;
}

/// The store for the weights of `model`. Weights are packed by their precision, and for one shape
/// or for many.
std::shared_ptr<WeightStore> StoreFor(const OnnxModel& model, Device& device,
                                      const CompileOptions& options) {
  const Identity weights = model.WeightsIdentity();
  if (options.weights == nullptr || !weights) return std::make_shared<WeightStore>(device);
  return options.weights->For(fmt::format("{} {} {}", ToString(weights), Name(options.precision),
                                          options.many_shapes ? "many" : "one"));
}

}  // namespace

ModelCompiler::ModelCompiler(std::unique_ptr<OnnxModel> model, Device& device,
                             CompileOptions options)
    : model_(std::move(model)),
      device_(device),
      options_(std::move(options)),
      weights_(StoreFor(*model_, device, options_)) {}

Result<std::unique_ptr<ModelCompiler>> ModelCompiler::Read(const std::string& path, Device& device,
                                                           CompileOptions options) {
  LAGOON_RETURN_IF_ERROR(CheckPrecision(options));
  if (options.kernels != nullptr) options.import.engine = nullptr;  // engines compute on the CPU
  auto model = OnnxModel::Read(path, options.import);
  if (!model) return Annotate(fmt::format("model '{}'", options.model), std::move(model).error());
  options.many_shapes = options.many_shapes && (*model)->open();
  return std::unique_ptr<ModelCompiler>(
      new ModelCompiler(*std::move(model), device, std::move(options)));
}

Result<CompiledPart> ModelCompiler::CompilePart(const OnnxModel& part, const GraphInputs& inputs,
                                                std::vector<std::size_t>* deciding) {
  Result<ModelPart> instance = part.Instantiate(inputs, deciding);
  if (!instance) {
    if (instance.error().code == ErrorCode::kUnimplemented && options_.import.engine == nullptr &&
        options_.kernels == nullptr) {
      instance.error().message += fmt::format("; {}", kHowToGetEngine);
    }
    return Annotate(fmt::format("model '{}'", options_.model), std::move(instance).error());
  }
  CompiledPart compiled;
  auto loaded = CompileWith(std::move(instance->graph), *weights_, device_, options_);
  if (!loaded && loaded.error().code == ErrorCode::kUnimplemented) {
    // A node without a kernel.
    LAGOON_ASSIGN_OR_RETURN(instance, part.ImportWhole(inputs, loaded.error()));
    loaded = CompileWith(std::move(instance->graph), *weights_, device_, options_);
  }
  part.ReleaseWeights();
  if (instance->links.next) instance->links.next->model->ReleaseWeights();
  if (!loaded) return tl::unexpected(std::move(loaded).error());
  compiled.loaded = *std::move(loaded);
  compiled.links = std::move(instance->links);
  return compiled;
}

Result<std::shared_ptr<LoadedPlan>> CompileModel(const std::string& path, Device& device,
                                                 const CompileOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const auto compiler, ModelCompiler::Read(path, device, options));
  LAGOON_ASSIGN_OR_RETURN(CompiledPart part, compiler->Compile(compiler->model().DefaultInputs()));
  if (part.loaded->plan.outputs.size() == compiler->model().outputs().size() && !part.links.next) {
    return std::move(part.loaded);
  }
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("model '{}': shapes depend on data, so that one plan is not all of it",
                          options.model));
}

Result<Nanoseconds> EstimateTime(Graph graph, const std::string& model) {
  CompileOptions options;
  options.model = model;
  LAGOON_ASSIGN_OR_RETURN(const LoweredProgram program,
                          WithoutExceptions([&] { return LowerGraph(std::move(graph), options); }));
  Nanoseconds time{0};
  for (const LoweredOp& op : program.ops) time += EstimateCost(op.kernel, 1).kernel;
  return time;
}

Result<std::shared_ptr<LoadedPlan>> CompileGraph(Graph graph, Device& device,
                                                 const CompileOptions& options) {
  LAGOON_RETURN_IF_ERROR(CheckPrecision(options));
  WeightStore store(device);
  return CompileWith(std::move(graph), store, device, options);
}

}  // namespace lagoon
