// If, Loop, Scan and SequenceMap: the nodes of a body take the place of the node.

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "graph/control/replacement.h"

namespace lagoon {
namespace {

/// Checks that input `i` is one element of `type`.
Status CheckOne(const Replacement& r, std::size_t i, std::string_view what, DataType type) {
  const Value& value = r.context().input(i);
  const bool fits = value.kind == ValueKind::kTensor && value.type == type &&
                    (!value.shape_known || ElementCount(value.dims) == 1);
  if (fits) return {};
  return r.context().Invalid(fmt::format("{} {} is {} {}, must be one {}", what, Quoted(value.name),
                                         OipName(value.type), ToString(value.dims), OipName(type)));
}

/// Input `i` of a Loop, one element of `type`, as a number.
Result<std::int64_t> LoopNumber(const Replacement& r, std::size_t i, std::string_view what,
                                DataType type) {
  LAGOON_RETURN_IF_ERROR(CheckOne(r, i, what, type));
  const Value& value = r.context().input(i);
  if (value.constant) return FirstAsInt64(*value.constant);
  r.context().Misses(i);
  return CannotUnroll(r.context(),
                      fmt::format("{} {} is computed at run time", what, Quoted(value.name)));
}

std::span<const ValueId> Captured(const Node& node) {
  return std::span(node.inputs).last(node.captured);
}

Status ReplaceIf(Replacement& r) {
  LAGOON_RETURN_IF_ERROR(CheckOne(r, 0, "condition", DataType::kBool));
  LAGOON_ASSIGN_OR_RETURN(const Constant condition, r.context().OneConstant(0, "condition"));
  const std::string branch = FirstAsInt64(condition) != 0 ? "then_branch" : "else_branch";
  LAGOON_ASSIGN_OR_RETURN(const std::vector<ValueId> results,
                          r.Splice(r.body(branch), Captured(r.node()), branch));
  if (results.size() < r.node().outputs.size()) {
    return r.context().Invalid(fmt::format("the graph {} has {} outputs, the node {}", branch,
                                           results.size(), r.node().outputs.size()));
  }
  for (std::size_t i = 0; i < r.node().outputs.size(); ++i) r.SetOutput(i, results[i]);
  return {};
}

std::size_t SizeOf(const Graph& body) { return std::max<std::size_t>(body.nodes.size(), 1); }

/// Checks that so many steps of a body may be unrolled.
Status CheckSize(const Replacement& r, std::int64_t steps, const Graph& body) {
  const std::size_t nodes = SizeOf(body);
  if (steps <= static_cast<std::int64_t>(kMaxUnrolledNodes / nodes)) return {};
  return CannotUnroll(r.context(), fmt::format("{} steps of {} nodes are more than {} nodes", steps,
                                               nodes, kMaxUnrolledNodes));
}

/// Checks that the next step of a loop belongs to this part of the model.
Status CheckRoom(Replacement& r, const Graph& body) {
  if (r.Fits(SizeOf(body))) return {};
  return r.context().Unimplemented(
      fmt::format("has steps behind the {} that one part of the model takes (at most {} nodes)",
                  r.node().steps_done, kMaxPartNodes));
}

/// A scan output without elements, of the type and shape that the body declares.
ValueId EmptyScan(Replacement& r, const Value& declared, std::int64_t axis) {
  Dims dims = declared.dims;
  std::ranges::replace(dims, -1, 0);
  const auto rank = static_cast<std::int64_t>(dims.size());
  if (axis < 0) axis += rank + 1;
  dims.insert(dims.begin() + std::clamp<std::int64_t>(axis, 0, rank), 0);
  return r.AddConstant({declared.type, std::move(dims), std::make_shared<ConstantData::Bytes>()});
}

/// Makes output `i` of what the steps computed, joined along a new axis.
void SetScan(Replacement& r, std::size_t i, std::vector<ValueId> parts, const Value& declared,
             std::int64_t axis) {
  if (!r.context().has_output(i)) return;
  if (parts.empty()) return r.SetOutput(i, EmptyScan(r, declared, axis));
  const ValueId sequence = r.Sequence(std::move(parts));
  r.Write("ConcatFromSequence", {sequence}, {{"axis", axis}, {"new_axis", std::int64_t{1}}},
          {r.node().outputs[i]});
}

/// The inputs of a Loop, by their meaning.
struct LoopInputs {
  ValueId trips = kNoValue, condition = kNoValue;
  std::vector<ValueId> carried, stacks;  // stacks: a sequence for each scan output

  explicit LoopInputs(const Node& node) {
    const auto formal = node.formal_inputs();
    const std::size_t stacked = std::min(node.stacked, formal.size());
    const std::size_t plain = formal.size() - stacked;
    if (plain > 0) trips = formal[0];
    if (plain > 1) condition = formal[1];
    for (std::size_t i = 2; i < plain; ++i) carried.push_back(formal[i]);
    stacks.assign(formal.begin() + static_cast<std::ptrdiff_t>(plain), formal.end());
  }
};

/// Whether the loop does another step.
Result<bool> Continues(const Replacement& r, const LoopInputs& in) {
  const std::int64_t done = r.node().steps_done;
  if (in.trips != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(const std::int64_t trips,
                            LoopNumber(r, 0, "trip count", DataType::kInt64));
    if (done >= trips) return false;
  }
  if (in.condition == kNoValue) return true;
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t condition,
                          LoopNumber(r, 1, "condition", DataType::kBool));
  return condition != 0;
}

/// The steps that the loop does if no condition ends it. Without a trip count: those so far and the
/// next one.
std::int64_t StepsAtLeast(const Replacement& r, const LoopInputs& in) {
  const std::int64_t next = r.node().steps_done + 1;
  const bool ends = in.condition != kNoValue && !r.value(in.condition).constant;
  if (in.trips == kNoValue || ends) return next;
  return std::max(next, FirstAsInt64(*r.value(in.trips).constant));
}

Status FinishLoop(Replacement& r, LoopInputs in, const Graph& body) {
  for (std::size_t i = 0; i < in.carried.size(); ++i) r.SetOutput(i, in.carried[i]);
  for (std::size_t i = in.carried.size() + 1; i < body.outputs.size(); ++i) {
    const std::size_t scan = i - in.carried.size() - 1;
    std::vector<ValueId> parts;
    if (scan < in.stacks.size()) parts = r.TakeElements(in.stacks[scan]);
    SetScan(r, i - 1, std::move(parts), body.value(body.outputs[i]), 0);
  }
  return {};
}

/// What one step of a loop adds to its scan outputs.
struct StackedResults {
  std::vector<ValueId> results;  // of this step
  std::vector<ValueId> stacks;   // of the steps before: a sequence for each result, or none
  std::size_t first_output = 0;  // of the node: the one of the first result
};

/// Appends `next`, the loop behind a step: adds the sequences of scan outputs and the captured
/// values to its inputs.
void AppendStacked(Replacement& r, const StackedResults& stacked, Node next) {
  for (std::size_t i = 0; i < stacked.results.size(); ++i) {
    std::vector<ValueId> parts;
    if (i < stacked.stacks.size()) parts = r.TakeElements(stacked.stacks[i]);
    parts.push_back(stacked.results[i]);
    if (r.context().has_output(stacked.first_output + i)) r.Await(parts.back());
    next.inputs.push_back(r.Sequence(std::move(parts)));
  }
  next.stacked = stacked.results.size();
  next.inputs.insert(next.inputs.end(), Captured(r.node()).begin(), Captured(r.node()).end());
  ++next.steps_done;
  r.Append(std::move(next));
}

/// Unrolls one step. The node itself comes next, with the results of this step.
Status StepLoop(Replacement& r, LoopInputs in, const Graph& body) {
  const std::int64_t done = r.node().steps_done;
  std::vector<ValueId> arguments{r.Number(done),
                                 in.condition == kNoValue ? r.Flag(true) : in.condition};
  arguments.insert(arguments.end(), in.carried.begin(), in.carried.end());
  arguments.insert(arguments.end(), Captured(r.node()).begin(), Captured(r.node()).end());
  LAGOON_ASSIGN_OR_RETURN(const std::vector<ValueId> results,
                          r.Splice(body, arguments, std::to_string(done)));
  const auto scans = results.begin() + 1 + std::ssize(in.carried);
  Node next = r.node();
  next.inputs = {in.trips, results[0]};
  next.inputs.insert(next.inputs.end(), results.begin() + 1, scans);
  AppendStacked(r, {{scans, results.end()}, in.stacks, in.carried.size()}, next);
  return {};
}

Status ReplaceLoop(Replacement& r) {
  const Graph& body = r.body("body");
  const LoopInputs in(r.node());
  if (std::ranges::find(in.carried, kNoValue) != in.carried.end()) {
    return r.context().Invalid("a carried value is left out");
  }
  if (body.inputs.size() != 2 + in.carried.size() + r.node().captured ||
      body.outputs.size() < in.carried.size() + 1 ||
      r.node().outputs.size() > body.outputs.size() - 1) {
    return r.context().Invalid(fmt::format(
        "the graph body has {} inputs ({} of them captured) and {} outputs, which do not fit {} "
        "carried values and {} outputs",
        body.inputs.size(), r.node().captured, body.outputs.size(), in.carried.size(),
        r.node().outputs.size()));
  }
  LAGOON_ASSIGN_OR_RETURN(const bool continues, Continues(r, in));
  if (!continues) return FinishLoop(r, in, body);
  LAGOON_RETURN_IF_ERROR(CheckSize(r, StepsAtLeast(r, in), body));
  LAGOON_RETURN_IF_ERROR(CheckRoom(r, body));
  return StepLoop(r, in, body);
}

/// The attribute `name` of a Scan: one number for each input or output.
Result<std::vector<std::int64_t>> ScanInts(const Replacement& r, const std::string& name,
                                           std::size_t count) {
  std::vector<std::int64_t> values = r.node().Ints(name, std::vector<std::int64_t>(count, 0));
  if (values.size() == count) return values;
  return r.context().Invalid(
      fmt::format("{} has {} elements, must have {}", name, values.size(), count));
}

/// The inputs and outputs of a Scan, by their meaning.
struct ScanParts {
  std::vector<ValueId> states, sources;  // sources: what is read step by step
  std::vector<ValueId> stacks;           // a sequence for each scan output of the steps so far
  std::vector<std::int64_t> source_axes, source_directions, result_axes, result_directions;
  std::int64_t steps = 0;
};

Status CountSteps(const Replacement& r, ScanParts& parts) {
  for (std::size_t i = 0; i < parts.sources.size(); ++i) {
    const Value& source = r.value(parts.sources[i]);
    LAGOON_ASSIGN_OR_RETURN(parts.source_axes[i],
                            r.context().Axis(parts.source_axes[i], source.dims.size()));
    const std::int64_t steps = source.dims[static_cast<std::size_t>(parts.source_axes[i])];
    if (i > 0 && steps != parts.steps) {
      return r.context().Invalid(fmt::format("input {} has {} steps, another one {}",
                                             Quoted(source.name), steps, parts.steps));
    }
    parts.steps = steps;
  }
  return {};
}

Result<ScanParts> ReadScan(const Replacement& r, const Graph& body) {
  const auto all = r.node().formal_inputs();
  const auto formal = all.first(all.size() - std::min(r.node().stacked, all.size()));
  const std::int64_t sources = r.node().Int("num_scan_inputs", 0);
  if (sources < 1 || sources > std::ssize(formal)) {
    return r.context().Invalid(
        fmt::format("num_scan_inputs is {}, the node has {} inputs", sources, formal.size()));
  }
  ScanParts parts;
  parts.states.assign(formal.begin(), formal.end() - sources);
  parts.sources.assign(formal.end() - sources, formal.end());
  parts.stacks.assign(all.begin() + std::ssize(formal), all.end());
  if (body.inputs.size() != formal.size() + r.node().captured ||
      body.outputs.size() < parts.states.size() || r.node().outputs.size() > body.outputs.size() ||
      std::ranges::find(formal, kNoValue) != formal.end()) {
    return r.context().Invalid("the graph body does not fit the inputs and outputs");
  }
  const std::size_t results = body.outputs.size() - parts.states.size();
  LAGOON_ASSIGN_OR_RETURN(parts.source_axes, ScanInts(r, "scan_input_axes", parts.sources.size()));
  LAGOON_ASSIGN_OR_RETURN(parts.source_directions,
                          ScanInts(r, "scan_input_directions", parts.sources.size()));
  LAGOON_ASSIGN_OR_RETURN(parts.result_axes, ScanInts(r, "scan_output_axes", results));
  LAGOON_ASSIGN_OR_RETURN(parts.result_directions, ScanInts(r, "scan_output_directions", results));
  LAGOON_RETURN_IF_ERROR(CountSteps(r, parts));
  return parts;
}

/// The steps of a Scan are done: its outputs are the last states and what the steps gave.
Status FinishScan(Replacement& r, ScanParts parts, const Graph& body) {
  for (std::size_t i = 0; i < parts.states.size(); ++i) r.SetOutput(i, parts.states[i]);
  for (std::size_t output = parts.states.size(); output < body.outputs.size(); ++output) {
    const std::size_t i = output - parts.states.size();
    std::vector<ValueId> results;
    if (i < parts.stacks.size()) results = r.TakeElements(parts.stacks[i]);
    if (parts.result_directions[i] != 0) std::ranges::reverse(results);
    SetScan(r, output, std::move(results), body.value(body.outputs[output]), parts.result_axes[i]);
  }
  return {};
}

/// Unrolls one step. The node itself comes next, with the results of this step.
Status StepScan(Replacement& r, const ScanParts& parts, const Graph& body) {
  const std::int64_t done = r.node().steps_done;
  std::vector<ValueId> arguments = parts.states;
  for (std::size_t i = 0; i < parts.sources.size(); ++i) {
    const std::int64_t at = parts.source_directions[i] != 0 ? parts.steps - 1 - done : done;
    arguments.push_back(r.Pick(parts.sources[i], at, parts.source_axes[i]));
  }
  arguments.insert(arguments.end(), Captured(r.node()).begin(), Captured(r.node()).end());
  LAGOON_ASSIGN_OR_RETURN(const std::vector<ValueId> results,
                          r.Splice(body, arguments, std::to_string(done)));
  const auto scans = results.begin() + std::ssize(parts.states);
  Node next = r.node();
  next.inputs.assign(results.begin(), scans);
  next.inputs.insert(next.inputs.end(), parts.sources.begin(), parts.sources.end());
  const StackedResults stacked{{scans, results.end()}, parts.stacks, parts.states.size()};
  AppendStacked(r, stacked, next);
  return {};
}

Status ReplaceScan(Replacement& r) {
  const Graph& body = r.body("body");
  LAGOON_ASSIGN_OR_RETURN(ScanParts parts, ReadScan(r, body));
  if (r.node().steps_done == parts.steps) return FinishScan(r, std::move(parts), body);
  LAGOON_RETURN_IF_ERROR(CheckSize(r, parts.steps, body));
  LAGOON_RETURN_IF_ERROR(CheckRoom(r, body));
  return StepScan(r, parts, body);
}

Status ReplaceSequenceMap(Replacement& r) {
  const Graph& body = r.body("body");
  const auto formal = r.node().formal_inputs();
  if (r.context().input(0).kind != ValueKind::kSequence) {
    return r.context().Invalid("input 0 is not a sequence");
  }
  const std::size_t steps = r.context().input(0).elements.size();
  LAGOON_RETURN_IF_ERROR(CheckSize(r, static_cast<std::int64_t>(steps), body));
  std::vector<std::vector<ValueId>> results(body.outputs.size());
  for (std::size_t step = 0; step < steps; ++step) {
    std::vector<ValueId> arguments;
    for (const ValueId id : formal) {
      const bool sequence = id != kNoValue && r.value(id).kind == ValueKind::kSequence;
      if (sequence && r.value(id).elements.size() != steps) {
        return r.context().Invalid(fmt::format("sequence {} has {} elements, the first one {}",
                                               Quoted(r.value(id).name),
                                               r.value(id).elements.size(), steps));
      }
      arguments.push_back(sequence ? r.value(id).elements[step] : id);
    }
    arguments.insert(arguments.end(), Captured(r.node()).begin(), Captured(r.node()).end());
    LAGOON_ASSIGN_OR_RETURN(const std::vector<ValueId> values,
                            r.Splice(body, arguments, std::to_string(step)));
    for (std::size_t i = 0; i < values.size(); ++i) results[i].push_back(values[i]);
  }
  if (r.node().outputs.size() > results.size()) {
    return r.context().Invalid(fmt::format("the graph body has {} outputs, the node {}",
                                           results.size(), r.node().outputs.size()));
  }
  for (std::size_t i = 0; i < r.node().outputs.size(); ++i) {
    r.SetSequence(i, std::move(results[i]));
  }
  return {};
}

constexpr std::string_view kScanAttributes =
    "i:num_scan_inputs I:scan_input_axes I:scan_input_directions I:scan_output_axes "
    "I:scan_output_directions";

const ControlOp kLoopOps[] = {
    {{"If", 1, 1, kMaxGraphEdges, kMaxGraphEdges, ""}, {"then_branch", "else_branch"}, ReplaceIf},
    {{"Loop", 1, 0, kMaxGraphEdges, kMaxGraphEdges, ""}, {"body"}, ReplaceLoop},
    {{"Scan", 9, 1, kMaxGraphEdges, kMaxGraphEdges, kScanAttributes}, {"body"}, ReplaceScan},
    {{"SequenceMap", 17, 1, kMaxGraphEdges, kMaxGraphEdges, ""}, {"body"}, ReplaceSequenceMap},
};

}  // namespace

std::span<const ControlOp> LoopOps() { return kLoopOps; }

}  // namespace lagoon
