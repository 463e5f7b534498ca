// LSTM, GRU, RNN.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

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

struct FunctionSpec {
  std::string_view name;
  float alpha, beta;  // defaults
  int parameters;
};

const FunctionSpec* FindFunction(const std::string& name) {
  static constexpr FunctionSpec kFunctions[] = {
      {"Sigmoid", 0, 0, 0},       {"Tanh", 0, 0, 0},
      {"Relu", 0, 0, 0},          {"Affine", 1, 0, 2},
      {"LeakyRelu", 0.01F, 0, 1}, {"ThresholdedRelu", 1, 0, 1},
      {"ScaledTanh", 1, 1, 2},    {"HardSigmoid", 0.2F, 0.5F, 2},
      {"Elu", 1, 0, 1},           {"Softsign", 0, 0, 0},
      {"Softplus", 0, 0, 0}};
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  const auto found = std::ranges::find_if(kFunctions, [&](const FunctionSpec& function) {
    return std::ranges::equal(function.name, name, same);
  });
  return found == std::end(kFunctions) ? nullptr : &*found;
}

std::vector<float> FloatsAttribute(const Node& node, const std::string& name) {
  const auto found = node.attributes.find(name);
  const auto* values =
      found == node.attributes.end() ? nullptr : std::get_if<std::vector<float>>(&found->second);
  return values == nullptr ? std::vector<float>() : *values;
}

/// Sets `activations` and, one for each of them, `activation_alpha` and `activation_beta`. In the
/// file the latter are lists for the functions that have a parameter, in their order, or for all.
Status SetActivations(OpContext& context, std::int64_t directions) {
  const Node& node = context.node();
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < directions; ++i) {
    const auto& one = CellOf(node.op).activations;
    names.insert(names.end(), one.begin(), one.end());
  }
  const auto given = node.attributes.find("activations");
  if (given != node.attributes.end()) {
    const auto* words = std::get_if<std::vector<std::string>>(&given->second);
    const std::size_t count = words == nullptr ? 0 : words->size();
    if (count != 0 && count != names.size()) {
      return context.Invalid(
          fmt::format("activations has {} functions, must have {}", count, names.size()));
    }
    if (count != 0) names = *words;
  }
  const std::vector<float> alphas = FloatsAttribute(node, "activation_alpha"),
                           betas = FloatsAttribute(node, "activation_beta");
  std::vector<float> alpha, beta;
  std::size_t next_alpha = 0, next_beta = 0;
  for (std::string& name : names) {
    const FunctionSpec* const function = FindFunction(name);
    if (function == nullptr) {
      return context.Unimplemented(fmt::format("activation {} is not known", Quoted(name)));
    }
    name = function->name;
    alpha.push_back(function->alpha);
    beta.push_back(function->beta);
    const bool has_alpha = function->parameters > 0 || alphas.size() == names.size();
    const bool has_beta = function->parameters > 1 || betas.size() == names.size();
    if (has_alpha && next_alpha < alphas.size()) alpha.back() = alphas[next_alpha++];
    if (has_beta && next_beta < betas.size()) beta.back() = betas[next_beta++];
  }
  context.SetAttribute("activations", std::move(names));
  context.SetAttribute("activation_alpha", std::move(alpha));
  context.SetAttribute("activation_beta", std::move(beta));
  return {};
}

Status CheckAttributes(OpContext& context, std::int64_t directions) {
  const Node& node = context.node();
  const float clip = node.Float("clip", 0);
  if (context.has_attribute("clip") && !(clip > 0)) {
    return context.Invalid(fmt::format("clip is {}, must be above 0", clip));
  }
  const std::int64_t forget = node.Int("input_forget", 0);
  if (forget != 0 && forget != 1) {
    return context.Invalid(fmt::format("input_forget is {}", forget));
  }
  return SetActivations(context, directions);
}

/// Lengths that are constant and equal to that of the input are dropped.
Status CheckLengths(OpContext& context, std::int64_t batch, std::int64_t steps) {
  if (!context.has_input(4)) return {};
  LAGOON_RETURN_IF_ERROR(CheckShape(context, 4, {batch}));
  if (context.input(4).type != DataType::kInt32) {
    return context.Invalid(fmt::format("sequence_lens {} is {}, must be INT32",
                                       Quoted(context.input(4).name),
                                       OipName(context.input(4).type)));
  }
  if (context.constant(4) == nullptr) return {};
  const std::vector<std::int64_t> lengths = context.constant(4)->ToInt64();
  for (const std::int64_t length : lengths) {
    if (length >= 0 && length <= steps) continue;
    return context.Invalid(
        fmt::format("sequence_lens has a {}, the input has {} steps", length, steps));
  }
  if (std::ranges::all_of(lengths, [&](auto length) { return length == steps; })) {
    context.DropInput(4);
  }
  return {};
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
