#include "program/compile.h"

#include <fmt/format.h>

#include "base/heap.h"
#include "kernels/bf16_unit.h"
#include "program/builder.h"
#include "program/check_plan.h"
#include "program/link.h"
#include "program/weights.h"

namespace lagoon {
namespace {

Result<std::shared_ptr<LoadedPlan>> BuildPlan(LoweredProgram program, Device& device,
                                              const CompileOptions& options) {
  if (program.ops.size() > kMaxPlanOps) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{} kernels, more than {}", program.ops.size(), kMaxPlanOps));
  }
  LAGOON_ASSIGN_OR_RETURN(PackedWeights weights, PackWeights(program, device));
  LAGOON_ASSIGN_OR_RETURN(Plan plan,
                          LinkPlan(program, weights, device, {options.model, options.in_place}));
  LAGOON_RETURN_IF_ERROR(CheckPlan(plan));
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->plan = std::move(plan);
  loaded->weights = std::move(weights.memory);
  return loaded;
}

}  // namespace

Result<std::shared_ptr<LoadedPlan>> CompileModel(const std::string& path, Device& device,
                                                 const CompileOptions& options) {
  auto graph = LoadGraph(path, options.import);
  if (!graph) return Annotate(fmt::format("model '{}'", options.model), std::move(graph).error());
  return CompileGraph(*std::move(graph), device, options);
}

Result<std::shared_ptr<LoadedPlan>> CompileGraph(Graph graph, Device& device,
                                                 const CompileOptions& options) {
  Status able = CheckPrecision(options.precision);
  if (!able) return Annotate(fmt::format("model '{}'", options.model), std::move(able).error());
  LAGOON_ASSIGN_OR_RETURN(LoweredProgram program,
                          Lower(std::move(graph), options.model, options.precision));
  auto loaded = BuildPlan(std::move(program), device, options);
  ReturnFreedMemory();
  if (!loaded) return Annotate(fmt::format("model '{}'", options.model), std::move(loaded).error());
  return loaded;
}

}  // namespace lagoon
