// Random numbers. They are constants: a node gives the same numbers whenever it runs.

#include <fmt/format.h>

#include <cmath>

#include "graph/fold/evaluate.h"
#include "graph/ops/shape_rules.h"

namespace lagoon {
namespace {

Status CheckNumbers(const OpContext& context, std::initializer_list<const char*> attributes) {
  for (const char* const name : attributes) {
    const float value = context.node().Float(name, 0);
    if (!std::isfinite(value)) return context.Invalid(fmt::format("{} is {}", name, value));
  }
  return {};
}

Status SetNumbers(OpContext& context, DataType type, Dims dims) {
  if (!IsFloat(type)) {
    return context.Invalid(fmt::format("dtype is {}, must be a float", OipName(type)));
  }
  LAGOON_RETURN_IF_ERROR(CheckNumbers(context, {"low", "high", "mean", "scale"}));
  context.SetOutput(0, type, std::move(dims));
  return {};
}

Status InferRandom(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const DataType type, context.TypeAttribute("dtype", DataType::kFloat32));
  if (!context.has_attribute("shape")) return context.Invalid("has no shape");
  return SetNumbers(context, type, context.node().Ints("shape", {}));
}

Status InferRandomLike(OpContext& context) {
  LAGOON_ASSIGN_OR_RETURN(const DataType type,
                          context.TypeAttribute("dtype", context.input(0).type));
  return SetNumbers(context, type, context.dims(0));
}

constexpr OpSpec kRandomOps[] = {
    {"RandomNormal", 1, 0, 0, 1, "i:dtype f:mean f:scale f:seed I:shape", InferRandom,
     EvaluateRandom, RunTime::kShapeOnly},
    {"RandomNormalLike", 1, 1, 1, 1, "i:dtype f:mean f:scale f:seed", InferRandomLike,
     EvaluateRandom, RunTime::kShapeOnly},
    {"RandomUniform", 1, 0, 0, 1, "i:dtype f:high f:low f:seed I:shape", InferRandom,
     EvaluateRandom, RunTime::kShapeOnly},
    {"RandomUniformLike", 1, 1, 1, 1, "i:dtype f:high f:low f:seed", InferRandomLike,
     EvaluateRandom, RunTime::kShapeOnly},
};

}  // namespace

std::span<const OpSpec> RandomOps() { return kRandomOps; }

}  // namespace lagoon
