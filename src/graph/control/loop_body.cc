#include "graph/control/loop_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace lagoon {
namespace {

constexpr std::size_t kFirstCarried = 2;  // behind the step's number and the condition

std::size_t Index(ValueId id) { return static_cast<std::size_t>(id); }

void Describe(Value& value, DataType type, Dims dims) {
  value.type = type;
  value.dims = std::move(dims);
  value.shape_known = true;
}

bool IsOfShapeOnly(const Node& node) {
  const OpSpec* spec = FindOp(node.op);
  return (spec != nullptr && spec->run_time == RunTime::kShapeOnly) || node.op == "SequenceLength";
}

/// By value of the body: whether it is known before the loop runs, if these carried values are.
std::vector<bool> KnownValues(const Graph& graph, const Node& loop, const Graph& body,
                              const std::vector<bool>& carried_known) {
  std::vector<bool> known(body.values.size(), false);
  for (std::size_t i = 0; i < known.size(); ++i) known[i] = body.values[i].constant.has_value();
  known[Index(body.inputs[0])] = known[Index(body.inputs[1])] = true;
  for (std::size_t i = 0; i < carried_known.size(); ++i) {
    known[Index(body.inputs[kFirstCarried + i])] = carried_known[i];
  }
  for (std::size_t i = 0; i < loop.captured; ++i) {
    const ValueId outer = loop.inputs[loop.inputs.size() - loop.captured + i];
    known[Index(body.inputs[body.inputs.size() - loop.captured + i])] =
        graph.value(outer).constant.has_value();
  }
  const auto is_known = [&](ValueId id) { return id == kNoValue || known[Index(id)]; };
  for (const Node& node : body.nodes) {
    if (!IsOfShapeOnly(node) && !std::ranges::all_of(node.inputs, is_known)) continue;
    for (const ValueId output : node.outputs) {
      if (output != kNoValue) known[Index(output)] = true;
    }
  }
  return known;
}

Result<Graph> CopyBody(const Graph& graph, const Node& loop) {
  const auto refuse = [&](ErrorCode code, std::string_view why) {
    return Fail(code, fmt::format("node {} ({}): {}", Quoted(loop.name), Shown(loop.op), why));
  };
  const auto found = loop.bodies.find("body");
  if (loop.op != "Loop" || found == loop.bodies.end() || loop.steps_done != 0) {
    return refuse(ErrorCode::kInvalidArgument, "is not a Loop before its first step");
  }
  const std::size_t carried = std::max(loop.formal_inputs().size(), kFirstCarried) - kFirstCarried;
  if (found->second->inputs.size() != kFirstCarried + carried + loop.captured ||
      found->second->outputs.size() < carried + 1) {
    return refuse(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "the graph body has {} inputs, {} of them captured, and {} outputs, which do not "
            "fit {} carried values",
            found->second->inputs.size(), loop.captured, found->second->outputs.size(), carried));
  }
  for (std::size_t i = 0; i < loop.inputs.size(); ++i) {
    const ValueId id = loop.inputs[i];
    if (id == kNoValue && i >= kFirstCarried) {
      return refuse(ErrorCode::kInvalidArgument, "a carried value is left out");
    }
    if (id == kNoValue || graph.value(id).kind == ValueKind::kTensor) continue;
    return refuse(ErrorCode::kUnimplemented,
                  fmt::format("input {} is a sequence, which a loop at run time does not carry",
                              Quoted(graph.value(id).name)));
  }
  return *found->second;
}

}  // namespace

Result<LoopBody> BodyOf(const Graph& graph, const Node& loop) {
  LoopBody result;
  LAGOON_ASSIGN_OR_RETURN(result.graph, CopyBody(graph, loop));
  Graph& body = result.graph;
  result.carried = body.inputs.size() - loop.captured - kFirstCarried;
  result.scans = body.outputs.size() - 1 - result.carried;
  Describe(body.value(body.inputs[0]), DataType::kInt64, {});
  Describe(body.value(body.inputs[1]), DataType::kBool, {});
  for (std::size_t i = 0; i < result.carried; ++i) {
    const Value& first = graph.value(loop.inputs[kFirstCarried + i]);
    Describe(body.value(body.inputs[kFirstCarried + i]), first.type, first.dims);
  }
  const std::vector<ValueId> captured(
      body.inputs.end() - static_cast<std::ptrdiff_t>(loop.captured), body.inputs.end());
  body.inputs.resize(body.inputs.size() - loop.captured);
  for (std::size_t i = 0; i < captured.size(); ++i) {
    const ValueId outer = loop.inputs[loop.inputs.size() - loop.captured + i];
    Value& inner = body.value(captured[i]);
    Describe(inner, graph.value(outer).type, graph.value(outer).dims);
    inner.constant = graph.value(outer).constant;
    if (inner.constant) continue;
    body.inputs.push_back(captured[i]);
    result.captured.push_back(outer);
  }
  return result;
}

bool ConditionDependsOnData(const Graph& graph, const Node& loop) {
  const Graph& body = *loop.bodies.at("body");
  const auto formal = loop.formal_inputs();
  const std::size_t carried = std::max(formal.size(), kFirstCarried) - kFirstCarried;
  if (body.inputs.size() != kFirstCarried + carried + loop.captured ||
      body.outputs.size() < carried + 1) {
    return false;  // an error that others report
  }
  std::vector<bool> known;  // by carried value
  for (std::size_t i = 0; i < carried; ++i) {
    const ValueId id = formal[kFirstCarried + i];
    known.push_back(id != kNoValue && graph.value(id).constant.has_value());
  }
  // Each round finds carried values that do not stay known.
  constexpr int kMaxRounds = 64;
  for (int round = 0; round < kMaxRounds; ++round) {
    const std::vector<bool> values = KnownValues(graph, loop, body, known);
    const auto is_known = [&](ValueId id) { return id == kNoValue || values[Index(id)]; };
    bool changed = false;
    for (std::size_t i = 0; i < known.size(); ++i) {
      const bool stays = is_known(body.outputs[i + 1]);
      changed = changed || (known[i] && !stays);
      known[i] = known[i] && stays;
    }
    if (!changed) return !is_known(body.outputs[0]);
  }
  return true;
}

tl::unexpected<Error> CannotUnroll(const OpContext& context, std::string_view why) {
  return context.Unimplemented(fmt::format(
      "{}; a loop must have a number of steps that follows from constants and shapes", why));
}

}  // namespace lagoon
