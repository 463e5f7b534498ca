// LSTM, GRU, RNN.

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "graph/ops/shape_rules.h"

namespace lagoon {
namespace {

/// The differences between the three ops.
struct Cell {
  std::string_view op;
  std::int64_t gates;
  std::vector<std::string> activations;  // for one direction
};

const Cell& CellOf(const std::string& op) {
  static const Cell kCells[] = {{"LSTM", 4, {"Sigmoid", "Tanh", "Tanh"}},
                                {"GRU", 3, {"Sigmoid", "Tanh"}},
                                {"RNN", 1, {"Tanh"}}};
  return *std::find_if(std::begin(kCells), std::end(kCells),
                       [&](const Cell& cell) { return cell.op == op || cell.op == "RNN"; });
}

/// Checks that input `i`, if present, has shape `dims`.
Status CheckShape(const OpContext& context, std::size_t i, const Dims& dims) {
  if (!context.has_input(i) || context.dims(i) == dims) return {};
  return context.Invalid(fmt::format("input {} has shape {}, expected {}",
                                     Quoted(context.input(i).name), ToString(context.dims(i)),
                                     ToString(dims)));
}

Status CheckAttributes(OpContext& context, std::int64_t directions) {
  const Node& node = context.node();
  if (context.has_attribute("clip")) return context.Unimplemented("clip is not supported");
  if (context.has_attribute("activation_alpha") || context.has_attribute("activation_beta")) {
    return context.Unimplemented("activation_alpha and activation_beta are not supported");
  }
  if (node.Int("input_forget", 0) != 0) return context.Unimplemented("input_forget = 1");
  context.EraseAttribute("input_forget");
  std::vector<std::string> expected;
  for (std::int64_t i = 0; i < directions; ++i) {
    const auto& one = CellOf(node.op).activations;
    expected.insert(expected.end(), one.begin(), one.end());
  }
  const auto given = node.attributes.find("activations");
  if (given == node.attributes.end()) return {};
  const auto* names = std::get_if<std::vector<std::string>>(&given->second);
  if (names != nullptr && *names == expected) {
    context.EraseAttribute("activations");
    return {};
  }
  return context.Unimplemented("activations other than the default are not supported");
}

/// All sequences must be as long as the input: lengths, if given, must be constant and equal to
/// that.
Status CheckLengths(const OpContext& context, std::int64_t batch, std::int64_t steps) {
  if (!context.has_input(4)) return {};
  LAGOON_ASSIGN_OR_RETURN(const auto lengths, context.ConstantInts(4, "sequence_lens"));
  LAGOON_RETURN_IF_ERROR(CheckShape(context, 4, {batch}));
  if (std::all_of(lengths.begin(), lengths.end(), [&](auto length) { return length == steps; })) {
    return {};
  }
  return context.Unimplemented("sequence_lens shorter than the input are not supported");
}

Status InferRecurrent(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {1, 2, 3, 5, 6, 7}));
  const Dims& x = context.dims(0);
  if (x.size() != 3 || context.rank(1) != 3 || context.rank(2) != 3) {
    return context.Invalid(fmt::format("X {}, W {} and R {} must have 3 axes", ToString(x),
                                       ToString(context.dims(1)), ToString(context.dims(2))));
  }
  const std::string direction = context.node().String("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return context.Invalid(fmt::format("direction {} is not known", Quoted(direction)));
  }
  const std::int64_t directions = direction == "bidirectional" ? 2 : 1;
  const std::int64_t layout = context.node().Int("layout", 0);
  if (layout != 0 && layout != 1) return context.Invalid(fmt::format("layout is {}", layout));
  const std::int64_t steps = x[layout == 0 ? 0 : 1], batch = x[layout == 0 ? 1 : 0];
  const std::int64_t gates = CellOf(context.node().op).gates;
  const std::int64_t hidden = context.dims(2)[2];
  const std::int64_t rows = context.dims(1)[1];
  if (hidden < 1 || rows % gates != 0 || rows / gates != hidden ||
      context.node().Int("hidden_size", hidden) != hidden) {
    return context.Invalid(fmt::format("W {} and R {} do not fit a hidden_size of {}",
                                       ToString(context.dims(1)), ToString(context.dims(2)),
                                       context.node().Int("hidden_size", hidden)));
  }
  LAGOON_RETURN_IF_ERROR(CheckAttributes(context, directions));
  LAGOON_RETURN_IF_ERROR(CheckShape(context, 1, {directions, rows, x[2]}));
  LAGOON_RETURN_IF_ERROR(CheckShape(context, 2, {directions, rows, hidden}));
  LAGOON_RETURN_IF_ERROR(CheckShape(context, 3, {directions, 2 * rows}));
  LAGOON_RETURN_IF_ERROR(CheckLengths(context, batch, steps));
  const Dims state =
      layout == 0 ? Dims{directions, batch, hidden} : Dims{batch, directions, hidden};
  LAGOON_RETURN_IF_ERROR(CheckShape(context, 5, state));
  LAGOON_RETURN_IF_ERROR(CheckShape(context, 6, state));
  LAGOON_RETURN_IF_ERROR(CheckShape(context, 7, {directions, 3 * hidden}));
  context.SetAttribute("direction", direction);
  context.SetAttribute("layout", layout);
  context.SetAttribute("linear_before_reset", context.node().Int("linear_before_reset", 0));
  const DataType type = context.input(0).type;
  context.SetOutput(0, type,
                    layout == 0 ? Dims{steps, directions, batch, hidden}
                                : Dims{batch, steps, directions, hidden});
  context.SetOutput(1, type, state);
  context.SetOutput(2, type, state);
  return {};
}

constexpr std::string_view kRecurrentAttributes =
    "F:activation_alpha F:activation_beta S:activations f:clip s:direction i:hidden_size "
    "i:input_forget i:layout i:linear_before_reset";

constexpr OpSpec kRecurrentOps[] = {
    {"LSTM", 7, 3, 8, 3, kRecurrentAttributes, InferRecurrent},
    {"GRU", 7, 3, 6, 2, kRecurrentAttributes, InferRecurrent},
    {"RNN", 7, 3, 6, 2, kRecurrentAttributes, InferRecurrent},
};

}  // namespace

std::span<const OpSpec> RecurrentOps() { return kRecurrentOps; }

}  // namespace lagoon
