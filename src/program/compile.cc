#include "program/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/check.h"
#include "base/heap.h"
#include "kernels/cpu_kernels.h"
#include "program/link/check_plan.h"
#include "program/link/link.h"
#include "program/link/weights.h"
#include "program/lower/builder.h"

namespace lagoon {
namespace {

Result<LoweredProgram> LowerGraph(Graph graph, const CompileOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(LoweredProgram program,
                          Lower(std::move(graph), options.model,
                                {options.precision, options.batches.size() > 1, options.kernels}));
  if (program.ops.size() <= kMaxPlanOps) return program;
  return Fail(
      ErrorCode::kResourceExhausted,
      fmt::format("model '{}': compiles to {} kernels, more than the {} that a model may have "
                  "beside its limit of {} nodes; split it into several models",
                  options.model, program.ops.size(), kMaxPlanOps, kMaxGraphNodes));
}

Result<std::shared_ptr<LoadedPlan>> BuildPlans(std::vector<LoweredProgram> programs, Device& device,
                                               const CompileOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(PackedWeights weights, PackWeights(programs, device));
  auto loaded = std::make_shared<LoadedPlan>();
  for (std::size_t i = 0; i < programs.size(); ++i) {
    LAGOON_ASSIGN_OR_RETURN(Plan plan,
                            LinkPlan(programs[i], weights, device,
                                     {options.model, options.batches[i], i, options.in_place}));
    LAGOON_RETURN_IF_ERROR(CheckPlan(plan));
    if (i == 0) {
      loaded->plan = std::move(plan);
    } else {
      loaded->larger.push_back(std::move(plan));
    }
  }
  loaded->weights = std::move(weights.memory);
  return loaded;
}

Result<std::shared_ptr<LoadedPlan>> CompileGraphs(std::vector<Graph> graphs, Device& device,
                                                  const CompileOptions& options) {
  const KernelMaker& kernels = options.kernels == nullptr ? CpuKernels() : *options.kernels;
  Status able = kernels.CheckPrecision(options.precision);
  if (!able) return Annotate(fmt::format("model '{}'", options.model), std::move(able).error());
  std::vector<LoweredProgram> programs;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    auto program = LowerGraph(std::move(graphs[i]), options);
    if (!program && i > 0) {
      return Annotate(fmt::format("batch {}", options.batches[i]), std::move(program).error());
    }
    LAGOON_RETURN_IF_ERROR(program);
    programs.push_back(*std::move(program));
  }
  auto loaded = BuildPlans(std::move(programs), device, options);
  ReturnFreedMemory();
  if (!loaded) return Annotate(fmt::format("model '{}'", options.model), std::move(loaded).error());
  return loaded;
}

}  // namespace

Result<std::shared_ptr<LoadedPlan>> CompileModel(const std::string& path, Device& device,
                                                 const CompileOptions& options) {
  LAGOON_CHECK(!options.batches.empty());
  LAGOON_CHECK(std::is_sorted(options.batches.begin(), options.batches.end(), std::less_equal<>()));
  auto graphs = LoadGraphs(path, options.batches, options.import);
  if (!graphs) return Annotate(fmt::format("model '{}'", options.model), std::move(graphs).error());
  return CompileGraphs(*std::move(graphs), device, options);
}

Result<std::shared_ptr<LoadedPlan>> CompileGraph(Graph graph, Device& device,
                                                 const CompileOptions& options) {
  LAGOON_CHECK(options.batches.size() == 1);
  std::vector<Graph> graphs;
  graphs.push_back(std::move(graph));
  return CompileGraphs(std::move(graphs), device, options);
}

}  // namespace lagoon
