// Normalisations.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

/// Rows of x as NormalizeSpec describes them, and the parameters. Long rows become two kernels.
struct Normalization {
  NormalizeSpec spec;
  Tensor x;
  std::optional<Tensor> scale, bias;
};

Result<Tensor> EmitNormalize(ProgramBuilder& builder, const std::string& name,
                             const Normalization& n) {
  NormalizeSpec spec = n.spec;
  spec.scale = n.scale.has_value();
  spec.bias = n.bias.has_value();
  std::vector<Operand> inputs{builder.All(n.x)};
  if (spec.row > kMaxNormalizeRow) {
    spec.moments = true;
    const auto floats = static_cast<std::int64_t>(2 * spec.rows * spec.pieces());
    const Tensor moments = builder.NewTensor(name, {floats}, Layout::kPlain);
    LAGOON_RETURN_IF_ERROR(builder.Emit(name, [&](auto& make) { return make.Moments(spec); },
                                        {builder.All(n.x)}, {builder.All(moments)}));
    inputs.push_back(builder.All(moments));
  }
  if (n.scale) inputs.push_back(builder.All(*n.scale));
  if (n.bias) inputs.push_back(builder.All(*n.bias));
  const Tensor y = builder.NewTensor(name, n.x.dims, Layout::kPlain);
  LAGOON_RETURN_IF_ERROR(builder.Emit(name, [&](auto& make) { return make.Normalize(spec); },
                                      std::move(inputs), {builder.All(y)}));
  return y;
}

/// Arithmetic in several steps, for ops without a body of their own. All tensors are fp32.
class Steps {
 public:
  Steps(ProgramBuilder& builder, const std::string& name) : builder_(builder), name_(name) {}

  Result<Tensor> Binary(BinaryOp op, const Tensor& a, const Tensor& b) {
    return EmitBinary(builder_, name_, op, a, b);
  }
  Result<Tensor> Binary(BinaryOp op, const Tensor& a, double number) {
    return Binary(op, a, ConstantNumber(builder_, DataType::kFloat32, number));
  }
  Result<Tensor> Unary(UnaryOp op, const Tensor& x) { return EmitUnary(builder_, name_, op, x); }
  Result<Tensor> Mean(const Tensor& x, const std::vector<std::size_t>& axes) {
    return EmitReduce(builder_, name_, ReduceOp::kMean, x, axes);
  }

  struct Moments {
    Tensor mean, inverse_deviation;
    Tensor centered;
  };
  /// Mean and variance over `axes`, which keep size one. Without `center` the mean is taken as 0
  /// and not computed.
  Result<Moments> MomentsOf(const Tensor& x, const std::vector<std::size_t>& axes, double epsilon,
                            bool center = true) {
    Moments m;
    m.centered = x;
    if (center) {
      LAGOON_ASSIGN_OR_RETURN(m.mean, Mean(x, axes));
      LAGOON_ASSIGN_OR_RETURN(m.centered, Binary(BinaryOp::kSub, x, m.mean));
    }
    LAGOON_ASSIGN_OR_RETURN(Tensor square, Binary(BinaryOp::kMul, m.centered, m.centered));
    LAGOON_ASSIGN_OR_RETURN(square, Mean(square, axes));
    LAGOON_ASSIGN_OR_RETURN(square, Binary(BinaryOp::kAdd, square, epsilon));
    LAGOON_ASSIGN_OR_RETURN(square, Unary(UnaryOp::kSqrt, square));
    LAGOON_ASSIGN_OR_RETURN(m.inverse_deviation, Unary(UnaryOp::kReciprocal, square));
    return m;
  }

 private:
  ProgramBuilder& builder_;
  const std::string& name_;
};

std::vector<std::size_t> AxesFrom(std::size_t first, std::size_t rank) {
  std::vector<std::size_t> axes;
  for (std::size_t i = first; i < rank; ++i) axes.push_back(i);
  return axes;
}

std::size_t CountFrom(const Dims& dims, std::size_t first) {
  return static_cast<std::size_t>(
      ElementCount(Dims(dims.begin() + static_cast<std::ptrdiff_t>(first), dims.end())));
}

/// [C] as [C,1,...], so that it broadcasts along axis 1 of `rank` axes.
Result<Tensor> PerChannel(ProgramBuilder& builder, ValueId value, std::size_t rank) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor plain, builder.Use(value, Layout::kPlain));
  return AlongChannels(builder, plain, rank);
}

/// Whether the device has kernels for the rows of n.
bool HasKernels(const ProgramBuilder& builder, const NormalizeSpec& n) {
  return n.row <= kMaxNormalizeRow || builder.options().on_cpu();
}

/// Normalizes rows too long for one block of a GPU, in steps. x is [N, groups, rest].
Result<Tensor> NormalizeBySteps(ProgramBuilder& builder, const Node& node, const Tensor& x,
                                std::int64_t groups, double epsilon) {
  Steps steps(builder, node.name);
  const std::int64_t rest = ElementCount(x.dims) / x.dims[0] / groups;
  LAGOON_ASSIGN_OR_RETURN(const Tensor grouped, builder.Reshape(x, {x.dims[0], groups, rest}));
  LAGOON_ASSIGN_OR_RETURN(const Steps::Moments m, steps.MomentsOf(grouped, {2}, epsilon));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y,
                          steps.Binary(BinaryOp::kMul, m.centered, m.inverse_deviation));
  return builder.Reshape(y, x.dims);
}

/// Normalizes each of `groups` groups of channels; scale and bias are [C].
Status LowerGroups(ProgramBuilder& builder, const Node& node, std::int64_t groups) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  const double epsilon = node.Float("epsilon", 1e-5F);
  const std::size_t rank = x.dims.size();
  const std::size_t inner = CountFrom(x.dims, 2);
  Normalization n;
  n.x = x;
  n.spec.rows = static_cast<std::size_t>(x.dims[0] * groups);
  n.spec.row = inner * static_cast<std::size_t>(x.dims[1] / groups);
  n.spec.period = static_cast<std::size_t>(groups);
  n.spec.inner = inner;
  n.spec.epsilon = static_cast<float>(epsilon);
  if (!HasKernels(builder, n.spec)) {
    Steps steps(builder, node.name);
    LAGOON_ASSIGN_OR_RETURN(Tensor y, NormalizeBySteps(builder, node, x, groups, epsilon));
    LAGOON_ASSIGN_OR_RETURN(const Tensor scale, PerChannel(builder, node.inputs[1], rank));
    LAGOON_ASSIGN_OR_RETURN(const Tensor bias, PerChannel(builder, node.inputs[2], rank));
    LAGOON_ASSIGN_OR_RETURN(y, steps.Binary(BinaryOp::kMul, y, scale));
    LAGOON_ASSIGN_OR_RETURN(y, steps.Binary(BinaryOp::kAdd, y, bias));
    builder.Define(node.outputs[0], y);
    return {};
  }
  LAGOON_ASSIGN_OR_RETURN(n.scale, builder.Use(node.inputs[1], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(n.bias, builder.Use(node.inputs[2], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitNormalize(builder, node.name, n));
  builder.Define(node.outputs[0], y);
  return {};
}

/// Scale or bias of a layer norm; it has the size of a row.
Result<std::optional<Tensor>> RowParameter(ProgramBuilder& builder, const Node& node, std::size_t i,
                                           const Dims& row) {
  if (i >= node.inputs.size() || node.inputs[i] == kNoValue) return std::optional<Tensor>();
  LAGOON_ASSIGN_OR_RETURN(const Tensor given, builder.Use(node.inputs[i], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(Tensor full, EmitExpand(builder, node.name, given, row));
  return std::optional(std::move(full));
}

Status LowerChannelAffine(ProgramBuilder& builder, const Node& node) {
  const Dims& dims = builder.dims(node.outputs[0]);
  const Layout layout = dims.size() == 4 ? Layout::kChannelsLast : Layout::kPlain;
  ChannelAffineSpec spec;
  spec.rows = static_cast<std::size_t>(ElementCount(dims) / dims[1]);
  spec.epilogue = EpilogueOf(node.fused);
  std::vector<Operand> inputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const bool parameter = i < 2;
    LAGOON_ASSIGN_OR_RETURN(const Tensor x,
                            builder.Use(node.inputs[i], parameter ? Layout::kPlain : layout));
    if (!parameter) spec.channels.push_back(static_cast<std::size_t>(x.dims[1]));
    inputs.push_back(builder.All(x));
  }
  const Tensor y = builder.NewTensor(node.name, dims, layout);
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name, [&](auto& make) { return make.ChannelAffine(spec); },
                      std::move(inputs), {builder.All(y)});
}

Status LowerBatchNormalization(ProgramBuilder& builder, const Node& node) {
  Steps steps(builder, node.name);
  const std::size_t rank = builder.dims(node.inputs[0]).size();
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  Tensor parameters[4];
  for (std::size_t i = 0; i < 4; ++i) {
    LAGOON_ASSIGN_OR_RETURN(parameters[i], PerChannel(builder, node.inputs[i + 1], rank));
  }
  const auto& [scale, bias, mean, variance] = parameters;
  LAGOON_ASSIGN_OR_RETURN(Tensor factor,
                          steps.Binary(BinaryOp::kAdd, variance, node.Float("epsilon", 1e-5F)));
  LAGOON_ASSIGN_OR_RETURN(factor, steps.Unary(UnaryOp::kSqrt, factor));
  LAGOON_ASSIGN_OR_RETURN(factor, steps.Binary(BinaryOp::kDiv, scale, factor));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, steps.Binary(BinaryOp::kSub, x, mean));
  LAGOON_ASSIGN_OR_RETURN(y, steps.Binary(BinaryOp::kMul, y, factor));
  LAGOON_ASSIGN_OR_RETURN(y, steps.Binary(BinaryOp::kAdd, y, bias));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerInstanceNormalization(ProgramBuilder& builder, const Node& node) {
  return LowerGroups(builder, node, builder.dims(node.inputs[0])[1]);
}

Status LowerGroupNormalization(ProgramBuilder& builder, const Node& node) {
  const std::int64_t groups = node.Int("num_groups", 1);
  const std::int64_t channels = builder.dims(node.inputs[0])[1];
  Node per_channel = node;
  for (std::size_t i = 1; i < 3; ++i) {
    if (builder.dims(node.inputs[i])[0] == channels) continue;
    // Before opset 21 the parameters are per group: each one is repeated for the channels of its
    // group.
    LAGOON_ASSIGN_OR_RETURN(Tensor given, builder.Use(node.inputs[i], Layout::kPlain));
    LAGOON_ASSIGN_OR_RETURN(given, builder.Reshape(given, {groups, 1}));
    LAGOON_ASSIGN_OR_RETURN(given,
                            EmitExpand(builder, node.name, given, {groups, channels / groups}));
    LAGOON_ASSIGN_OR_RETURN(given, builder.Reshape(given, {channels}));
    per_channel.inputs[i] = builder.AddValue(node.name, DataType::kFloat32, {channels});
    builder.Define(per_channel.inputs[i], given);
  }
  return LowerGroups(builder, per_channel, groups);
}

Status LowerLayerNormalization(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  const auto axis = static_cast<std::size_t>(node.Int("axis", 0));
  const Dims row(x.dims.begin() + static_cast<std::ptrdiff_t>(axis), x.dims.end());
  Normalization n;
  n.x = x;
  n.spec.row = CountFrom(x.dims, axis);
  n.spec.rows = static_cast<std::size_t>(ElementCount(x.dims)) / n.spec.row;
  n.spec.epsilon = node.Float("epsilon", 1e-5F);
  n.spec.center = node.op != "RMSNormalization";
  LAGOON_ASSIGN_OR_RETURN(n.scale, RowParameter(builder, node, 1, row));
  LAGOON_ASSIGN_OR_RETURN(n.bias, RowParameter(builder, node, 2, row));
  const bool statistics = std::any_of(node.outputs.begin() + 1, node.outputs.end(),
                                      [](ValueId id) { return id != kNoValue; });
  if (!statistics && HasKernels(builder, n.spec)) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitNormalize(builder, node.name, n));
    builder.Define(node.outputs[0], y);
    return {};
  }
  Steps steps(builder, node.name);
  LAGOON_ASSIGN_OR_RETURN(const Steps::Moments m,
                          steps.MomentsOf(x, AxesFrom(axis, x.dims.size()),
                                          node.Float("epsilon", 1e-5F), n.spec.center));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, steps.Binary(BinaryOp::kMul, m.centered, m.inverse_deviation));
  if (n.scale) {
    LAGOON_ASSIGN_OR_RETURN(y, steps.Binary(BinaryOp::kMul, y, *n.scale));
  }
  if (n.bias) {
    LAGOON_ASSIGN_OR_RETURN(y, steps.Binary(BinaryOp::kAdd, y, *n.bias));
  }
  const Tensor results[] = {y, m.mean, m.inverse_deviation};
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != kNoValue) builder.Define(node.outputs[i], results[i]);
  }
  return {};
}

Status LowerMeanVarianceNormalization(ProgramBuilder& builder, const Node& node) {
  constexpr double kEpsilon = 1e-9;
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  std::vector<std::size_t> axes;
  for (const std::int64_t axis : node.Ints("axes", {})) {
    axes.push_back(static_cast<std::size_t>(axis));
  }
  Steps steps(builder, node.name);
  LAGOON_ASSIGN_OR_RETURN(const Steps::Moments m, steps.MomentsOf(x, axes, kEpsilon));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y,
                          steps.Binary(BinaryOp::kMul, m.centered, m.inverse_deviation));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerLpNormalization(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  const auto axis = static_cast<std::size_t>(node.Int("axis", 0));
  LAGOON_ASSIGN_OR_RETURN(
      const Tensor norm,
      EmitFold(builder, node.name, node.Int("p", 2) == 1 ? FoldOp::kL1 : FoldOp::kL2, x, {axis}));
  Steps steps(builder, node.name);
  // A line of zeros stays one: 0 / 1. Every other norm is at least as large as the smallest float.
  const Tensor zero = ConstantNumber(builder, DataType::kFloat32, 0);
  LAGOON_ASSIGN_OR_RETURN(Tensor divisor, steps.Binary(BinaryOp::kEqual, norm, zero));
  LAGOON_ASSIGN_OR_RETURN(divisor, EmitCast(builder, node.name, divisor, DataType::kFloat32));
  LAGOON_ASSIGN_OR_RETURN(divisor, steps.Binary(BinaryOp::kAdd, norm, divisor));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, steps.Binary(BinaryOp::kDiv, x, divisor));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerLrn(ProgramBuilder& builder, const Node& node) {
  // y = x * (bias + alpha * mean of x^2 over the channels around)^-beta. In memory, [N,C,rest] is
  // an image of C rows and one column with the rest as channels.
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  Steps steps(builder, node.name);
  LAGOON_ASSIGN_OR_RETURN(const Tensor square, steps.Binary(BinaryOp::kMul, x, x));
  const auto size = static_cast<std::uint32_t>(node.Int("size", 1));
  PoolSpec pool;
  pool.kind = PoolSpec::Kind::kAverageCountPadding;
  pool.window = {.batch = static_cast<std::uint32_t>(x.dims[0]),
                 .height = static_cast<std::uint32_t>(x.dims[1]),
                 .out_height = static_cast<std::uint32_t>(x.dims[1]),
                 .kernel_h = size,
                 .pad_top = (size - 1) / 2};
  pool.channels = static_cast<std::uint32_t>(CountFrom(x.dims, 2));
  pool.pad_bottom = size - 1 - pool.window.pad_top;
  const Tensor mean = builder.NewTensor(node.name, x.dims, Layout::kPlain);
  LAGOON_RETURN_IF_ERROR(builder.Emit(node.name, [&](auto& make) { return make.Pool(pool); },
                                      {builder.All(square)}, {builder.All(mean)}));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, steps.Binary(BinaryOp::kMul, mean, node.Float("alpha", 1e-4F)));
  LAGOON_ASSIGN_OR_RETURN(y, steps.Binary(BinaryOp::kAdd, y, node.Float("bias", 1)));
  LAGOON_ASSIGN_OR_RETURN(y, steps.Unary(UnaryOp::kLog, y));
  LAGOON_ASSIGN_OR_RETURN(y, steps.Binary(BinaryOp::kMul, y, -node.Float("beta", 0.75F)));
  LAGOON_ASSIGN_OR_RETURN(y, steps.Unary(UnaryOp::kExp, y));
  LAGOON_ASSIGN_OR_RETURN(y, steps.Binary(BinaryOp::kMul, x, y));
  builder.Define(node.outputs[0], y);
  return {};
}

constexpr Lowering kNormalizeLowerings[] = {
    {"BatchNormalization", LowerBatchNormalization, Lowering::kFloat},
    {"ChannelAffine", LowerChannelAffine, Lowering::kAny, true},
    {"InstanceNormalization", LowerInstanceNormalization, Lowering::kFloat},
    {"GroupNormalization", LowerGroupNormalization, Lowering::kFloat},
    {"LayerNormalization", LowerLayerNormalization, Lowering::kFloat},
    {"RMSNormalization", LowerLayerNormalization},
    {"MeanVarianceNormalization", LowerMeanVarianceNormalization, Lowering::kFloat},
    {"LpNormalization", LowerLpNormalization, Lowering::kFloat},
    {"LRN", LowerLrn, Lowering::kFloat},
};

}  // namespace

std::span<const Lowering> NormalizeLowerings() { return kNormalizeLowerings; }

}  // namespace lagoon
