// LSTM, GRU and RNN: the input's part of all gates is one product; every step is one or two
// kernels.

#include <fmt/format.h>

#include <map>
#include <numeric>
#include <optional>

#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

using Ints = std::vector<std::int64_t>;

/// More steps than this would make more kernels than a plan should have.
constexpr std::int64_t kMaxSteps = 16384;
constexpr std::size_t kLengths = 4;  // the input with the lengths of the sequences

CellFunction FunctionOf(const std::string& name) {
  static const std::map<std::string, CellFunction> kFunctions{
      {"Sigmoid", CellFunction::kSigmoid},
      {"Tanh", CellFunction::kTanh},
      {"Relu", CellFunction::kRelu},
      {"Affine", CellFunction::kAffine},
      {"LeakyRelu", CellFunction::kLeakyRelu},
      {"ThresholdedRelu", CellFunction::kThresholdedRelu},
      {"ScaledTanh", CellFunction::kScaledTanh},
      {"HardSigmoid", CellFunction::kHardSigmoid},
      {"Elu", CellFunction::kElu},
      {"Softsign", CellFunction::kSoftsign},
      {"Softplus", CellFunction::kSoftplus}};
  return kFunctions.at(name);
}

template <typename T>
std::vector<T> ListOf(const Node& node, const std::string& name) {
  const auto found = node.attributes.find(name);
  const auto* values =
      found == node.attributes.end() ? nullptr : std::get_if<std::vector<T>>(&found->second);
  return values == nullptr ? std::vector<T>() : *values;
}

/// The functions of direction `direction` in a spec that is otherwise empty. A node in normal form
/// has a name, an alpha and a beta for each of them.
CellSpec FunctionsOf(const Node& node, std::int64_t direction) {
  CellSpec spec;
  const auto names = ListOf<std::string>(node, "activations");
  const auto alphas = ListOf<float>(node, "activation_alpha"),
             betas = ListOf<float>(node, "activation_beta");
  std::vector<CellActivation*> to{&spec.gate, &spec.candidate, &spec.output};
  if (node.op == "GRU") to.pop_back();
  if (node.op == "RNN") to = {&spec.candidate};
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(direction) * to.size() + i;
    if (at >= names.size() || at >= alphas.size() || at >= betas.size()) continue;
    *to[i] = {FunctionOf(names[at]), alphas[at], betas[at]};
  }
  spec.clip = node.Float("clip", 0);
  spec.coupled = node.op == "LSTM" && node.Int("input_forget", 0) != 0;
  return spec;
}

/// The sizes of a node; X is [steps, batch, input] once `layout` is resolved.
struct Sizes {
  std::int64_t steps = 1, batch = 1, input = 1, hidden = 1, gates = 1, directions = 1;
};

/// One direction of a node while it is lowered.
class Direction {
 public:
  Direction(ProgramBuilder& builder, const Node& node, const Sizes& sizes, std::int64_t index)
      : builder_(builder), node_(node), sizes_(sizes), index_(index) {
    const std::string direction = node.String("direction", "forward");
    reverse_ = direction == "reverse" || (direction == "bidirectional" && index == 1);
  }

  /// `x`: [steps * batch, input].
  Status Run(const Tensor& x) {
    LAGOON_RETURN_IF_ERROR(Prepare(x));
    outputs_.resize(static_cast<std::size_t>(sizes_.steps));
    for (std::int64_t i = 0; i < sizes_.steps; ++i) {
      const std::int64_t step = reverse_ ? sizes_.steps - 1 - i : i;
      LAGOON_RETURN_IF_ERROR(Step(step));
      outputs_[static_cast<std::size_t>(step)] = h_;
    }
    return {};
  }

  /// [batch, hidden] each: the output of every step, and the last state.
  const std::vector<Tensor>& outputs() const { return outputs_; }
  const Tensor& h() const { return h_; }
  const Tensor& c() const { return c_; }

 private:
  bool Has(std::size_t i) const { return i < node_.inputs.size() && node_.inputs[i] != kNoValue; }

  /// This direction's part of input `i`, in the shape `dims`. The directions of the input lie along
  /// `axis`.
  Result<Tensor> Part(std::size_t i, std::size_t axis, const Dims& dims) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor all, builder_.Use(node_.inputs[i], Layout::kPlain));
    Ints starts(all.dims.size(), 0);
    const Ints steps(all.dims.size(), 1);
    Dims part = all.dims;
    starts[axis] = index_;
    part[axis] = 1;
    Tensor own = all;
    if (all.dims[axis] != 1) {
      LAGOON_ASSIGN_OR_RETURN(own, EmitSlice(builder_, node_.name, all, starts, part, steps));
    }
    return builder_.Reshape(own, dims);
  }

  Result<Tensor> Slice(const Tensor& x, std::int64_t start, std::int64_t count) {
    const Ints starts{start}, steps{1};
    return EmitSlice(builder_, node_.name, x, starts, {count}, steps);
  }

  /// [rows of all gates]: the sum of the biases of the gates, without the recurrent bias of gate h
  /// of a GRU that resets after its product.
  Result<std::optional<Tensor>> GateBias() {
    if (!Has(3)) return std::optional<Tensor>();
    const std::int64_t rows = sizes_.gates * sizes_.hidden;
    LAGOON_ASSIGN_OR_RETURN(const Tensor both, Part(3, 0, {2 * rows}));
    LAGOON_ASSIGN_OR_RETURN(const Tensor of_x, Slice(both, 0, rows));
    LAGOON_ASSIGN_OR_RETURN(Tensor of_h, Slice(both, rows, rows));
    if (linear_) {
      const std::int64_t two = 2 * sizes_.hidden;
      LAGOON_ASSIGN_OR_RETURN(linear_bias_, Slice(of_h, two, sizes_.hidden));
      LAGOON_ASSIGN_OR_RETURN(const Tensor first, Slice(of_h, 0, two));
      const Tensor zero = ConstantNumber(builder_, DataType::kFloat32, 0, {1});
      LAGOON_ASSIGN_OR_RETURN(const Tensor zeros,
                              EmitExpand(builder_, node_.name, zero, {sizes_.hidden}));
      LAGOON_ASSIGN_OR_RETURN(of_h, EmitConcat(builder_, node_.name, {first, zeros}, 0));
    }
    LAGOON_ASSIGN_OR_RETURN(Tensor sum,
                            EmitBinary(builder_, node_.name, BinaryOp::kAdd, of_x, of_h));
    return std::optional(std::move(sum));
  }

  Result<Tensor> Zeros() {
    const Tensor zero = ConstantNumber(builder_, DataType::kFloat32, 0, {1, 1});
    return EmitExpand(builder_, node_.name, zero, {sizes_.batch, sizes_.hidden});
  }

  Result<Tensor> InitialState(std::size_t i) {
    if (!Has(i)) return Zeros();
    const std::size_t axis = node_.Int("layout", 0) == 0 ? 0 : 1;
    return Part(i, axis, {sizes_.batch, sizes_.hidden});
  }

  /// This direction's part of the constant input weights.
  Constant InputWeights(const Constant& all) const {
    const std::size_t bytes = all.bytes.size() / static_cast<std::size_t>(sizes_.directions);
    const auto take = [bytes, index = index_](std::span<const Constant> sources) {
      const auto begin = sources[0].bytes->begin() + static_cast<std::ptrdiff_t>(bytes) * index;
      return ConstantData::Bytes(begin, begin + static_cast<std::ptrdiff_t>(bytes));
    };
    return DerivedConstant(all.type, {sizes_.gates * sizes_.hidden, sizes_.input},
                           fmt::format("direction {}", index_), {all}, take);
  }

  ValueId AddValue(const std::string& name, const Tensor& tensor) {
    const ValueId id = builder_.AddValue(name, tensor.type, tensor.dims);
    builder_.Define(id, tensor);
    return id;
  }

  /// x * transposed(W) + bias, [steps * batch, rows of all gates]. Constant weights are packed.
  Result<Tensor> Gates(const Tensor& x, const std::optional<Tensor>& bias) {
    const std::string name = node_.name + ".gates";
    const std::int64_t rows = sizes_.gates * sizes_.hidden;
    if (const Constant* const all = builder_.constant(node_.inputs[1])) {
      Node gemm;
      gemm.name = name;
      gemm.op = "Gemm";
      gemm.attributes = {{"transB", std::int64_t{1}}};
      const ValueId w = builder_.AddValue(
          name + ".weights", InputWeights(*all),
          fmt::format("{} direction {}", builder_.KeyOf(node_.inputs[1]), index_));
      gemm.inputs = {AddValue(name + ".x", x), w};
      if (bias) gemm.inputs.push_back(AddValue(name + ".bias", *bias));
      gemm.outputs = {builder_.AddValue(name, DataType::kFloat32, {x.dims[0], rows})};
      LAGOON_RETURN_IF_ERROR(LowerPackedMatMul(builder_, gemm));
      return builder_.Use(gemm.outputs[0], Layout::kPlain);
    }
    LAGOON_ASSIGN_OR_RETURN(Tensor w, Part(1, 0, {rows, sizes_.input}));
    LAGOON_ASSIGN_OR_RETURN(w, builder_.Transpose(w, Ints{1, 0}, Layout::kPlain));
    LAGOON_ASSIGN_OR_RETURN(const Tensor gates, EmitMatMul(builder_, name, x, w));
    return bias ? EmitBinary(builder_, name, BinaryOp::kAdd, gates, *bias) : gates;
  }

  Status Prepare(const Tensor& x) {
    linear_ = node_.op == "GRU" && node_.Int("linear_before_reset", 0) != 0;
    LAGOON_ASSIGN_OR_RETURN(r_, Part(2, 0, {sizes_.gates * sizes_.hidden, sizes_.hidden}));
    LAGOON_ASSIGN_OR_RETURN(const std::optional<Tensor> bias, GateBias());
    LAGOON_ASSIGN_OR_RETURN(gates_, Gates(x, bias));
    if (Has(kLengths)) {
      LAGOON_ASSIGN_OR_RETURN(lengths_, builder_.Use(node_.inputs[kLengths], Layout::kPlain));
    }
    if (linear_ && !bias) {
      const Tensor zero = ConstantNumber(builder_, DataType::kFloat32, 0, {1});
      LAGOON_ASSIGN_OR_RETURN(linear_bias_,
                              EmitExpand(builder_, node_.name, zero, {sizes_.hidden}));
    }
    LAGOON_ASSIGN_OR_RETURN(h_, InitialState(5));
    if (node_.op != "LSTM") return {};
    LAGOON_ASSIGN_OR_RETURN(c_, InitialState(6));
    if (Has(7)) {
      LAGOON_ASSIGN_OR_RETURN(peepholes_, Part(7, 0, {3 * sizes_.hidden}));
    }
    return {};
  }

  Tensor NewState() {
    return builder_.NewTensor(node_.name, {sizes_.batch, sizes_.hidden}, Layout::kPlain);
  }

  /// Emits a kernel on the gates of `step`, the weights, h and `extras`.
  Result<std::vector<Tensor>> Cell(CellKind kind, std::int64_t step,
                                   const std::vector<Tensor>& extras, std::size_t outputs) {
    CellSpec spec = FunctionsOf(node_, index_);
    spec.kind = kind;
    spec.batch = static_cast<std::size_t>(sizes_.batch);
    spec.hidden = static_cast<std::size_t>(sizes_.hidden);
    spec.peepholes = peepholes_.has_value();
    spec.lengths = lengths_.has_value();
    spec.step = static_cast<std::int32_t>(step);
    const std::size_t bytes =
        static_cast<std::size_t>(sizes_.batch * sizes_.gates * sizes_.hidden) * sizeof(float);
    std::vector<Operand> inputs{{gates_.buffer, static_cast<std::size_t>(step) * bytes, bytes},
                                builder_.All(r_),
                                builder_.All(h_)};
    for (const Tensor& extra : extras) inputs.push_back(builder_.All(extra));
    if (lengths_) inputs.push_back(builder_.All(*lengths_));
    std::vector<Tensor> made;
    std::vector<Operand> written;
    for (std::size_t i = 0; i < outputs; ++i) {
      made.push_back(NewState());
      written.push_back(builder_.All(made.back()));
    }
    LAGOON_RETURN_IF_ERROR(builder_.Emit(
        fmt::format("{}.{}", node_.name, step), [&](auto& make) { return make.Cell(spec); },
        std::move(inputs), std::move(written)));
    return made;
  }

  Status Step(std::int64_t step) {
    std::vector<Tensor> made;
    if (node_.op == "LSTM") {
      std::vector<Tensor> extras{c_};
      if (peepholes_) extras.push_back(*peepholes_);
      LAGOON_ASSIGN_OR_RETURN(made, Cell(CellKind::kLstm, step, extras, 2));
      c_ = made[1];
    } else if (node_.op == "RNN") {
      LAGOON_ASSIGN_OR_RETURN(made, Cell(CellKind::kRnn, step, {}, 1));
    } else if (linear_) {
      LAGOON_ASSIGN_OR_RETURN(made, Cell(CellKind::kGruLinear, step, {linear_bias_}, 1));
    } else {
      LAGOON_ASSIGN_OR_RETURN(const std::vector<Tensor> gates,
                              Cell(CellKind::kGruGates, step, {}, 2));
      LAGOON_ASSIGN_OR_RETURN(made, Cell(CellKind::kGruState, step, gates, 1));
    }
    h_ = made[0];
    return {};
  }

  ProgramBuilder& builder_;
  const Node& node_;
  const Sizes& sizes_;
  std::int64_t index_;
  bool reverse_ = false, linear_ = false;
  Tensor r_, gates_, h_, c_, linear_bias_;
  std::optional<Tensor> peepholes_, lengths_;
  std::vector<Tensor> outputs_;
};

Result<Sizes> SizesOf(const ProgramBuilder& builder, const Node& node) {
  const bool batch_first = node.Int("layout", 0) != 0;
  const Dims& x = builder.dims(node.inputs[0]);
  const Dims& r = builder.dims(node.inputs[2]);
  Sizes sizes;
  sizes.steps = x[batch_first ? 1 : 0];
  sizes.batch = x[batch_first ? 0 : 1];
  sizes.input = x[2];
  sizes.directions = r[0];
  sizes.hidden = r[2];
  sizes.gates = r[1] / r[2];
  if (sizes.steps <= kMaxSteps) return sizes;
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("{} steps, the most is {}", sizes.steps, kMaxSteps));
}

/// y [steps, directions, batch, hidden] with zeros behind the end of each sequence.
Result<Tensor> ZeroBehindEnd(ProgramBuilder& builder, const Node& node, const Tensor& y,
                             ValueId lengths) {
  LAGOON_ASSIGN_OR_RETURN(Tensor ends, builder.Use(lengths, Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(ends, builder.Reshape(ends, {1, 1, y.dims[2], 1}));
  std::vector<std::int32_t> steps(static_cast<std::size_t>(y.dims[0]));
  std::iota(steps.begin(), steps.end(), 0);
  const Tensor places =
      ConstantTensor(builder, node.name + ".steps", DataType::kInt32, {y.dims[0], 1, 1, 1}, steps);
  LAGOON_ASSIGN_OR_RETURN(const Tensor inside,
                          EmitBinary(builder, node.name, BinaryOp::kLess, places, ends));
  const Tensor zero = ConstantNumber(builder, DataType::kFloat32, 0);
  const Tensor kept = builder.NewTensor(node.name, y.dims, Layout::kPlain);
  LAGOON_RETURN_IF_ERROR(builder.Emit(
      node.name,
      [&](auto& make) {
        return make.Where({inside.dims, y.dims, zero.dims, y.dims, DataType::kFloat32});
      },
      {builder.All(inside), builder.All(y), builder.All(zero)}, {builder.All(kept)}));
  return kept;
}

/// Joins parts [batch, hidden] to one value [parts..., batch, hidden], or with the batch first.
/// `lengths`: of the sequences, if the parts are steps and some may be shorter.
Status Join(ProgramBuilder& builder, const Node& node, std::size_t output,
            std::vector<Tensor> parts, const Dims& leading, ValueId lengths = kNoValue) {
  if (output >= node.outputs.size() || node.outputs[output] == kNoValue) return {};
  Dims dims = leading;
  dims.push_back(parts[0].dims[0]);
  dims.push_back(parts[0].dims[1]);
  LAGOON_ASSIGN_OR_RETURN(Tensor y, EmitConcat(builder, node.name, std::move(parts), 0));
  LAGOON_ASSIGN_OR_RETURN(y, builder.Reshape(y, dims));
  if (lengths != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(y, ZeroBehindEnd(builder, node, y, lengths));
  }
  if (node.Int("layout", 0) != 0) {
    Ints order{static_cast<std::int64_t>(leading.size())};
    for (std::size_t i = 0; i < leading.size(); ++i) order.push_back(static_cast<std::int64_t>(i));
    order.push_back(static_cast<std::int64_t>(leading.size() + 1));
    LAGOON_ASSIGN_OR_RETURN(y, builder.Transpose(y, order, Layout::kPlain));
  }
  builder.Define(node.outputs[output], y);
  return {};
}

Status LowerRecurrent(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Sizes sizes, SizesOf(builder, node));
  LAGOON_ASSIGN_OR_RETURN(Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  if (node.Int("layout", 0) != 0) {
    LAGOON_ASSIGN_OR_RETURN(x, builder.Transpose(x, Ints{1, 0, 2}, Layout::kPlain));
  }
  LAGOON_ASSIGN_OR_RETURN(x, builder.Reshape(x, {sizes.steps * sizes.batch, sizes.input}));
  std::vector<Direction> directions;
  for (std::int64_t i = 0; i < sizes.directions; ++i) {
    LAGOON_RETURN_IF_ERROR(directions.emplace_back(builder, node, sizes, i).Run(x));
  }
  std::vector<Tensor> all, last_h, last_c;
  for (std::int64_t step = 0; step < sizes.steps; ++step) {
    for (const Direction& direction : directions) {
      all.push_back(direction.outputs()[static_cast<std::size_t>(step)]);
    }
  }
  for (const Direction& direction : directions) {
    last_h.push_back(direction.h());
    last_c.push_back(direction.c());
  }
  LAGOON_RETURN_IF_ERROR(Join(builder, node, 0, std::move(all), {sizes.steps, sizes.directions},
                              kLengths < node.inputs.size() ? node.inputs[kLengths] : kNoValue));
  LAGOON_RETURN_IF_ERROR(Join(builder, node, 1, std::move(last_h), {sizes.directions}));
  if (node.op != "LSTM") return {};
  return Join(builder, node, 2, std::move(last_c), {sizes.directions});
}

constexpr Lowering kRecurrentLowerings[] = {
    {"LSTM", LowerRecurrent, Lowering::kFloat},
    {"GRU", LowerRecurrent, Lowering::kFloat},
    {"RNN", LowerRecurrent, Lowering::kFloat},
};

}  // namespace

std::span<const Lowering> RecurrentLowerings() { return kRecurrentLowerings; }

}  // namespace lagoon
