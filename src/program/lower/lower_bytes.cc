#include "program/lower/lower_bytes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/conv/int8/byte_conv.h"
#include "kernels/conv/int8/byte_depthwise.h"
#include "kernels/elementwise/byte_add.h"
#include "kernels/move/transpose.h"
#include "kernels/window/byte_pool.h"
#include "program/lower/emit.h"

namespace lagoon {
namespace {

bool HasInput(const Node& node, std::size_t i) {
  return i < node.inputs.size() && node.inputs[i] != kNoValue;
}

QuantizeSpec WholeSpec(const Tensor& x) {
  QuantizeSpec spec;
  spec.quantized = DataType::kUInt8;
  spec.inner = static_cast<std::size_t>(ElementCount(x.dims));
  return spec;
}

std::vector<Operand> WithGrid(ProgramBuilder& builder, const Tensor& x, const ByteGrid& grid) {
  const Tensor scale = ConstantNumber(builder, DataType::kFloat32, grid.scale);
  const Tensor zero = ConstantNumber(builder, DataType::kUInt8, grid.zero);
  return {builder.All(x), builder.All(scale), builder.All(zero)};
}

/// What becomes of the sums of a node, and which value that is.
struct ByteResult {
  std::optional<ByteGrid> grid;  // none: fp32
  bool limits = false;
  float low = 0, high = 0;  // of the real numbers
  ValueId value = kNoValue;

  /// The levels of the limits, before the zero point is added.
  std::pair<float, float> Levels() const {
    const float least = -static_cast<float>(grid->zero), most = 255.0F + least;
    if (!limits) return {least, most};
    return {std::clamp(low / grid->scale, least, most),
            std::clamp(high / grid->scale, least, most)};
  }
};

/// The scales of a + b, rounded to the grid of `result`.
Tensor SumScales(ProgramBuilder& builder, const std::string& name, const ByteGrid& a,
                 const ByteGrid& b, const ByteResult& result) {
  const ByteGrid& grid = *result.grid;
  const auto [low, high] = result.Levels();
  const auto zero = static_cast<float>(grid.zero);
  const std::vector<float> scales{a.scale,
                                  static_cast<float>(a.zero),
                                  b.scale,
                                  static_cast<float>(b.zero),
                                  grid.scale,
                                  zero,
                                  std::nearbyint(low) + zero,
                                  std::nearbyint(high) + zero};
  const auto count = static_cast<std::int64_t>(scales.size());
  return ConstantTensor(builder, name + ".scales", DataType::kFloat32, {count}, scales);
}

/// The sum of two terms in one layout.
Result<ByteTensor> EmitSum(ProgramBuilder& builder, const std::string& name,
                           std::span<const ByteTensor> terms, const ByteResult& result) {
  const ByteTensor &a = terms[0], &b = terms[1];
  const Tensor by = SumScales(builder, name, a.grid, b.grid, result);
  const Tensor y =
      builder.NewTensor(name + ".bytes", a.tensor.dims, a.tensor.layout, DataType::kUInt8);
  LAGOON_ASSIGN_OR_RETURN(Kernel kernel,
                          MakeByteAdd(static_cast<std::size_t>(ElementCount(y.dims))));
  LAGOON_RETURN_IF_ERROR(builder.Emit(
      name, std::move(kernel), {builder.All(a.tensor), builder.All(b.tensor), builder.All(by)},
      {builder.All(y)}));
  return ByteTensor{y, *result.grid};
}

bool HasGrid(const ProgramBuilder& builder, ValueId value) {
  return value != kNoValue && builder.flow() != nullptr && builder.flow()->GridAt(value);
}

// ---- Linear nodes

/// Nothing for limits that are none. What else is fused into the node is what LinearOf() takes.
std::optional<ByteResult> ResultOf(const ProgramBuilder& builder, const Node& node) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Fused& fused = node.fused;
  ByteResult result;
  result.value = node.outputs[0];
  result.grid = FusedGridOf(node);
  if (fused.activation == ActivationKind::kOp) return result;
  if (fused.activation != ActivationKind::kNone) {
    const bool clip = fused.activation == ActivationKind::kClip;
    result.limits = true;
    result.low = clip ? fused.low : 0;
    result.high = clip ? fused.high : kInfinity;
    if (!(result.low <= result.high)) return std::nullopt;
  }
  const Node* const fake = builder.flow()->OnlyFake(result.value);
  if (fake == nullptr) return result;
  result.grid = builder.flow()->GridAt(fake->outputs[0]);
  if (result.grid) result.value = fake->outputs[0];
  return result;
}

/// What a Relu or Clip becomes if its only reader rounds it to a grid; else nothing.
std::optional<ByteResult> LimitedResultOf(const ProgramBuilder& builder, const Node& node) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const Node* const fake = builder.flow()->OnlyFake(node.outputs[0]);
  if (fake == nullptr) return std::nullopt;
  const bool clip = node.op == "Clip";
  const ByteResult result{.grid = builder.flow()->GridAt(fake->outputs[0]),
                          .limits = true,
                          .low = clip ? node.Float("min", -kInfinity) : 0,
                          .high = clip ? node.Float("max", kInfinity) : kInfinity,
                          .value = fake->outputs[0]};
  if (!result.grid || !(result.low <= result.high)) return std::nullopt;
  return result;
}

/// What is added to the bytes of a linear node in its kernel, and what becomes of the sum.
struct ByteResidual {
  ValueId other;
  ByteResult sum;
};

/// Of a node with the result `bytes`. Nothing if its bytes are not only read by a sum with a grid,
/// or if the other term comes later.
std::optional<ByteResidual> ResidualOf(const ProgramBuilder& builder, const Node& node,
                                       const ByteResult& bytes) {
  const ByteFlow& flow = *builder.flow();
  const Node* const reader = flow.OnlyReader(bytes.value);
  if (!bytes.grid || reader == nullptr) return std::nullopt;
  std::optional<ByteResult> sum;
  if (const ValueId residual = node.fused.residual; residual != kNoValue) {
    if (reader->op == "FakeQuantize") {
      sum = ByteResult{.grid = flow.GridAt(reader->outputs[0]), .value = reader->outputs[0]};
    } else if (reader->op == "Relu" || reader->op == "Clip") {
      sum = LimitedResultOf(builder, *reader);
    }
    if (!sum || !sum->grid) return std::nullopt;
    return ByteResidual{residual, *sum};
  }
  if (reader->op != "Add" || reader->inputs.size() != 2) return std::nullopt;
  const ValueId other = reader->inputs[reader->inputs[0] == bytes.value ? 1 : 0];
  if (builder.TermsOf(other).size() != 1 ||
      builder.dims(other) != builder.dims(reader->outputs[0]) ||
      builder.dims(bytes.value) != builder.dims(other)) {
    return std::nullopt;
  }
  sum = ResultOf(builder, *reader);
  if (!sum || !sum->grid) return std::nullopt;
  return ByteResidual{other, *sum};
}

/// Whether the kernel of an earlier node has computed the value, or what it is rounded to.
bool IsDone(const ProgramBuilder& builder, ValueId value) {
  const Node* const fake = builder.flow()->OnlyFake(value);
  return !builder.TermsOf(value).empty() ||
         (fake != nullptr && !builder.TermsOf(fake->outputs[0]).empty());
}

/// The parameters of the kernel that do not depend on the weights themselves.
struct LinearNumbers {
  std::vector<float> scale;
  std::vector<std::int32_t> bias;
  float largest = 0;  // of the scales
};

/// The bias as a multiple of the unit of the sums. Nothing if it is far from being one.
std::optional<std::int32_t> BiasInUnits(float bias, double unit, bool floats) {
  const double exact = static_cast<double>(bias) / unit, level = std::nearbyint(exact);
  if (!(std::abs(level) <= static_cast<double>(kMaxByteBias))) return std::nullopt;
  const double tolerance = floats ? 0.01 + 1e-6 * std::abs(level) : 0.5;
  if (std::abs(exact - level) > tolerance) return std::nullopt;
  return static_cast<std::int32_t>(level);
}

std::optional<LinearNumbers> NumbersOf(const ProgramBuilder& builder, const Node& node,
                                       const ByteLinear& linear, const ByteResult& result) {
  const std::span<const float> scales = linear.weights->scale.floats();
  const float* bias = nullptr;
  if (HasInput(node, 2)) {
    const Constant& constant = *builder.constant(node.inputs[2]);
    const auto columns = static_cast<std::int64_t>(linear.columns);
    if (constant.type != DataType::kFloat32 || constant.dims != Dims{columns}) return std::nullopt;
    bias = constant.floats().data();
  }
  LinearNumbers numbers;
  for (std::size_t c = 0; c < linear.columns; ++c) {
    const float unit = linear.x.scale * scales[scales.size() == 1 ? 0 : c];
    const float scale = result.grid ? unit / result.grid->scale : unit;
    if (!(scale >= std::numeric_limits<float>::min() && scale <= 1e30F)) return std::nullopt;
    numbers.largest = std::max(numbers.largest, scale);
    // Half a unit must not be seen in a byte.
    const bool exact = !result.grid || scale > 0.02F;
    const std::optional<std::int32_t> level =
        BiasInUnits(bias == nullptr ? 0 : bias[c], unit, exact);
    if (!level) return std::nullopt;
    numbers.scale.push_back(scale);
    numbers.bias.push_back(*level);
  }
  return numbers;
}

/// The levels of the weights as signed bytes, [column][depth].
std::vector<std::int8_t> LevelsOf(const QuantizedConstant& weights, std::size_t columns,
                                  std::size_t depth, bool columns_last) {
  const auto* const from = reinterpret_cast<const std::uint8_t*>(weights.levels.bytes->data());
  std::vector<std::int8_t> levels(columns * depth);
  if (columns_last) {
    TransposeBytes(from, depth, columns, reinterpret_cast<std::uint8_t*>(levels.data()));
  } else {
    std::memcpy(levels.data(), from, levels.size());
  }
  weights.levels.bytes.Release();
  if (weights.levels.type == DataType::kUInt8) {
    for (std::int8_t& level : levels) level = static_cast<std::int8_t>(level ^ 0x80);
  }
  return levels;
}

std::string TextOf(const ConstantData& bytes) {
  return ToString(bytes.identity() ? bytes.identity() : IdentityOf(std::span(*bytes)));
}

/// The factory of a linear node's kernel.
struct LinearKernels {
  Result<Kernel> (*make)(const ByteConvSpec& spec, std::span<const ByteUnit* const> units);
  ByteConvPacking (*packing)(const ByteConvSpec& spec);
  void (*pack)(const ByteConvSpec& spec, const ByteConvWeights& from, std::byte* packed);
};

LinearKernels KernelsOf(const ByteLinear& linear) {
  if (!linear.depthwise) {
    const auto packing = [](const ByteConvSpec& spec) { return ByteConvPackingOf(spec); };
    const auto pack = [](const ByteConvSpec& spec, const ByteConvWeights& from, std::byte* packed) {
      PackByteConv(spec, from, packed);
    };
    return {MakeByteConv, packing, pack};
  }
  const auto packing = [](const ByteConvSpec& spec) {
    return ByteConvPacking{.bytes = PackedByteDepthwiseBytes(spec)};
  };
  return {MakeByteDepthwise, packing, PackByteDepthwise};
}

/// Adds the packed weights.
BufferId AddWeights(ProgramBuilder& builder, const Node& node, const ByteConvSpec& spec,
                    const ByteLinear& linear, LinearNumbers numbers) {
  const auto text = [](const auto& values) {
    return ToString(IdentityOf(std::as_bytes(std::span(values))));
  };
  const LinearKernels kernels = KernelsOf(linear);
  const ByteConvPacking packing = kernels.packing(spec);
  const ImageWindow& window = spec.window;
  const std::string key =
      fmt::format("{} {} {} {} {} {} {} {} {} {}x{} {} {} bytes", builder.KeyOf(node.inputs[1]),
                  TextOf(linear.weights->levels.bytes), text(numbers.scale), text(numbers.bias),
                  spec.x_zero, linear.columns_last, linear.groups, spec.in_channels,
                  window.stride_w, window.kernel_h, window.kernel_w, packing.bytes, packing.taps);
  const auto fill = [spec, weights = *linear.weights, numbers = std::move(numbers),
                     columns = linear.columns, depth = linear.depth, last = linear.columns_last,
                     pack = kernels.pack](std::byte* to) {
    const std::vector<std::int8_t> levels = LevelsOf(weights, columns, depth, last);
    pack(spec, {levels, numbers.bias, numbers.scale}, to);
  };
  return builder.AddConstant(node.name + ".weights", packing.bytes, fill, key);
}

Result<ByteConvSpec> SpecOf(const ProgramBuilder& builder, const Node& node,
                            const ByteLinear& linear) {
  ByteConvSpec spec;
  if (node.op == "Conv") {
    LAGOON_ASSIGN_OR_RETURN(const ImageNode image, ImageNodeOf(builder, node));
    spec.window = image.window;
    spec.in_channels = image.in_channels;
    spec.out_channels = image.out_channels;
    if (!linear.depthwise) spec.groups = static_cast<std::uint32_t>(linear.groups);
    return spec;
  }
  const std::int64_t rows =
      ElementCount(builder.dims(node.outputs[0])) / static_cast<std::int64_t>(linear.columns);
  LAGOON_ASSIGN_OR_RETURN(const ImageShape image,
                          ImageOf({rows, static_cast<std::int64_t>(linear.depth), 1, 1}));
  spec.window.height = spec.window.out_height = image.batch;
  spec.in_channels = image.channels;
  spec.out_channels = static_cast<std::uint32_t>(linear.columns);
  return spec;
}

/// Sets what the kernel writes. `as_floats`: no node reads the bytes, so that the kernel writes the
/// floats that they stand for.
void SetResult(const ByteResult& result, float largest_scale, bool as_floats, ByteConvSpec& spec) {
  spec.floats = !result.grid || as_floats;
  spec.limits = result.limits;
  spec.low = result.low;
  spec.high = result.high;
  if (!result.grid) return;
  spec.y_zero = result.grid->zero;
  std::tie(spec.low, spec.high) = result.Levels();
  // Bytes have limits of their own, which hold for scales up to 1 without further work.
  const std::pair bounds = ByteResult{.grid = result.grid}.Levels();
  spec.limits = as_floats || largest_scale > 1 || result.Levels() != bounds;
  if (as_floats) spec.grid = result.grid->scale;
}

/// Whether the dims around the node are those that its weights ask for.
bool DimsFit(const ProgramBuilder& builder, const Node& node, const ByteLinear& linear) {
  const Dims &x = builder.dims(node.inputs[0]), &y = builder.dims(node.outputs[0]);
  const Dims& w = builder.dims(node.inputs[1]);
  if (node.op == "Conv") {
    return x.size() == w.size() && y.size() == w.size() && w[0] == y[1] &&
           w[1] * static_cast<std::int64_t>(linear.groups) == x[1] &&
           node.Ints("kernel_shape", {}) == std::vector<std::int64_t>(w.begin() + 2, w.end());
  }
  return !x.empty() && !y.empty() && x.back() == static_cast<std::int64_t>(linear.depth) &&
         y.back() == static_cast<std::int64_t>(linear.columns);
}

}  // namespace

bool ComputesOnBytes(const LowerOptions& options) {
  return options.on_cpu() && ByteUnits().size() > 1;
}

Result<ByteTensor> EmitBytes(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                             const ByteGrid& grid) {
  const Tensor y = builder.NewTensor(name + ".bytes", x.dims, x.layout, DataType::kUInt8);
  LAGOON_RETURN_IF_ERROR(builder.Emit(name + ".bytes",
                                      [&](auto& make) { return make.Quantize(WholeSpec(x)); },
                                      WithGrid(builder, x, grid), {builder.All(y)}));
  return ByteTensor{y, grid};
}

Result<ByteTensor> UseBytes(ProgramBuilder& builder, ValueId value, Layout layout) {
  if (const std::span<const ByteTensor> terms = builder.TermsOf(value); terms.size() == 1) {
    ByteTensor bytes = terms[0];
    LAGOON_ASSIGN_OR_RETURN(bytes.tensor, builder.Convert(bytes.tensor, layout));
    return bytes;
  }
  const std::optional<ByteGrid> grid = builder.flow()->GridAt(value);
  if (!grid) return Fail(ErrorCode::kInternal, "a value without a grid is used as bytes");
  const std::array<ValueId, 1> one{value};
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(value, builder.CheapestLayout(one)));
  const std::string name = builder.graph().value(value).name;
  LAGOON_ASSIGN_OR_RETURN(ByteTensor bytes, EmitBytes(builder, name, x, *grid));
  builder.DefineBytes(value, {bytes});
  LAGOON_ASSIGN_OR_RETURN(bytes.tensor, builder.Convert(bytes.tensor, layout));
  return bytes;
}

Result<Tensor> EmitFloats(ProgramBuilder& builder, const std::string& name,
                          std::span<const ByteTensor> terms, Layout layout) {
  std::vector<Tensor> floats;
  for (const ByteTensor& term : terms) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor bytes, builder.Convert(term.tensor, layout));
    const Tensor y = builder.NewTensor(name + ".floats", bytes.dims, layout);
    LAGOON_RETURN_IF_ERROR(builder.Emit(
        name + ".floats", [&](auto& make) { return make.Dequantize(WholeSpec(bytes)); },
        WithGrid(builder, bytes, term.grid), {builder.All(y)}));
    floats.push_back(y);
  }
  if (floats.size() == 1) return floats[0];
  return EmitBinary(builder, name, BinaryOp::kAdd, floats[0], floats[1]);
}

Result<bool> TryLowerByteLinear(ProgramBuilder& builder, const Node& node) {
  if (builder.flow() == nullptr) return false;
  const std::optional<ByteLinear> linear = builder.flow()->LinearOf(builder.graph(), node);
  if (!linear || !DimsFit(builder, node, *linear)) return false;
  const std::optional<ByteResult> result = ResultOf(builder, node);
  if (!result || (linear->depthwise && !result->grid)) return false;
  std::optional<LinearNumbers> numbers = NumbersOf(builder, node, *linear, *result);
  if (!numbers) return false;
  LAGOON_ASSIGN_OR_RETURN(ByteConvSpec spec, SpecOf(builder, node, *linear));
  spec.x_zero = linear->x.zero;
  std::optional<ByteResidual> residual;
  if (!linear->depthwise) residual = ResidualOf(builder, node, *result);
  const bool as_floats = result->grid && !linear->depthwise && !residual &&
                         node.fused.residual == kNoValue &&
                         !builder.flow()->WantsBytes(result->value);
  SetResult(*result, numbers->largest, as_floats, spec);
  spec.residual = residual.has_value();
  const Layout layout = node.op == "Conv" ? Layout::kChannelsLast : Layout::kPlain;
  LAGOON_ASSIGN_OR_RETURN(const ByteTensor x, UseBytes(builder, node.inputs[0], layout));
  LAGOON_ASSIGN_OR_RETURN(Kernel kernel, KernelsOf(*linear).make(spec, ByteUnits()));
  const BufferId weights = AddWeights(builder, node, spec, *linear, *std::move(numbers));
  const Tensor y = builder.NewTensor(node.name, builder.dims(node.outputs[0]), layout,
                                     spec.floats ? DataType::kFloat32 : DataType::kUInt8);
  std::vector<Operand> inputs{builder.All(x.tensor), builder.All(weights)};
  if (residual) {
    LAGOON_ASSIGN_OR_RETURN(const ByteTensor other, UseBytes(builder, residual->other, layout));
    const Tensor scales = SumScales(builder, node.name, *result->grid, other.grid, residual->sum);
    inputs.push_back(builder.All(other.tensor));
    inputs.push_back(builder.All(scales));
  }
  LAGOON_RETURN_IF_ERROR(
      builder.Emit(node.name, std::move(kernel), std::move(inputs), {builder.All(y)}));
  if (spec.floats) {
    builder.Define(result->value, y);
    return true;
  }
  if (residual) {
    builder.DefineBytes(residual->sum.value, {{y, *residual->sum.grid}});
    return true;
  }
  std::vector<ByteTensor> terms{{y, *result->grid}};
  if (node.fused.residual != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(terms.emplace_back(), UseBytes(builder, node.fused.residual, layout));
  }
  builder.DefineBytes(result->value, std::move(terms));
  return true;
}

Result<bool> TryLowerByteFake(ProgramBuilder& builder, const Node& node) {
  const ValueId x = node.inputs[0], y = node.outputs[0];
  if (builder.flow() == nullptr || !HasGrid(builder, y)) return false;
  if (builder.LiesIn(y, Layout::kPlain) || builder.LiesIn(y, Layout::kChannelsLast)) {
    return true;  // its producer has rounded it
  }
  const ByteGrid grid = *builder.flow()->GridAt(y);
  if (const auto terms = builder.TermsOf(x); terms.size() == 2) {
    const ByteResult result{.grid = grid, .value = y};
    LAGOON_ASSIGN_OR_RETURN(const ByteTensor sum, EmitSum(builder, node.name, terms, result));
    builder.DefineBytes(y, {sum});
    return true;
  }
  if (!builder.flow()->WantsBytes(y)) return false;
  const Layout layout = builder.CheapestLayout(node.inputs);
  LAGOON_ASSIGN_OR_RETURN(const Tensor floats, builder.Use(x, layout));
  LAGOON_ASSIGN_OR_RETURN(const ByteTensor bytes, EmitBytes(builder, node.name, floats, grid));
  builder.DefineBytes(y, {bytes});
  return true;
}

Result<bool> TryLowerByteSum(ProgramBuilder& builder, const Node& node) {
  if (builder.flow() == nullptr || node.op != "Add" || node.inputs.size() != 2) return false;
  const std::optional<ByteResult> result = ResultOf(builder, node);
  if (!result || !result->grid) return false;
  if (!builder.TermsOf(result->value).empty()) return true;  // a term's kernel has added the other
  bool some = false;
  for (const ValueId input : node.inputs) {
    if (!HasGrid(builder, input) || builder.dims(input) != builder.dims(node.outputs[0])) {
      return false;
    }
    some = some || builder.TermsOf(input).size() == 1;
  }
  if (!some) return false;
  const Layout layout = builder.CheapestLayout(node.inputs);
  std::vector<ByteTensor> terms;
  for (const ValueId input : node.inputs) {
    LAGOON_ASSIGN_OR_RETURN(terms.emplace_back(), UseBytes(builder, input, layout));
  }
  LAGOON_ASSIGN_OR_RETURN(const ByteTensor sum, EmitSum(builder, node.name, terms, *result));
  builder.DefineBytes(result->value, {sum});
  return true;
}

Result<bool> TryLowerByteLimit(ProgramBuilder& builder, const Node& node) {
  if (builder.flow() == nullptr || node.inputs.size() != 1) return false;
  if (IsDone(builder, node.outputs[0])) return true;
  const std::span<const ByteTensor> terms = builder.TermsOf(node.inputs[0]);
  if (terms.size() != 2) return false;
  const std::optional<ByteResult> result = LimitedResultOf(builder, node);
  if (!result) return false;
  LAGOON_ASSIGN_OR_RETURN(const ByteTensor sum, EmitSum(builder, node.name, terms, *result));
  builder.DefineBytes(result->value, {sum});
  return true;
}

namespace {

/// Returns false if the pooling of floats must compute the node, or say what is wrong with it.
Result<bool> LowerByteMaxPool(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const ImageNode image, ImageNodeOf(builder, node));
  Result<Kernel> kernel = MakeByteMaxPool({image.window, image.in_channels});
  if (!kernel) return false;
  LAGOON_ASSIGN_OR_RETURN(const ByteTensor x,
                          UseBytes(builder, node.inputs[0], Layout::kChannelsLast));
  const Tensor y = builder.NewTensor(node.name, builder.dims(node.outputs[0]),
                                     Layout::kChannelsLast, DataType::kUInt8);
  builder.DefineBytes(node.outputs[0], {{y, x.grid}});
  LAGOON_RETURN_IF_ERROR(
      builder.Emit(node.name, *std::move(kernel), {builder.All(x.tensor)}, {builder.All(y)}));
  return true;
}

/// The grid of what the node moves, and the value that has it: that of its input, or that to which
/// the only reader of a Concat rounds. Nothing if the node must move floats.
std::optional<std::pair<ByteGrid, ValueId>> MovedGrid(const ProgramBuilder& builder,
                                                      const Node& node, std::size_t inputs) {
  const Node* const fake =
      node.op == "Concat" ? builder.flow()->OnlyFake(node.outputs[0]) : nullptr;
  bool equal = true;
  for (std::size_t i = 0; i < inputs; ++i) {
    const std::span<const ByteTensor> terms = builder.TermsOf(node.inputs[i]);
    if (terms.size() != 1) return std::nullopt;
    equal = equal && terms[0].grid == builder.TermsOf(node.inputs[0])[0].grid;
  }
  if (equal) return std::pair(builder.TermsOf(node.inputs[0])[0].grid, node.outputs[0]);
  if (fake == nullptr || !HasGrid(builder, fake->outputs[0])) return std::nullopt;
  return std::pair(*builder.flow()->GridAt(fake->outputs[0]), fake->outputs[0]);
}

}  // namespace

Result<bool> TryLowerByteMove(ProgramBuilder& builder, const Node& node, LowerFunction lower) {
  if (builder.flow() == nullptr || !MovesBytes(node)) return false;
  Node bytes = node;
  const std::size_t count = node.op == "Concat" ? node.inputs.size() : 1;
  const auto moved = MovedGrid(builder, node, count);
  if (!moved) return false;
  const auto& [grid, value] = *moved;
  if (node.op == "MaxPool" && builder.dims(node.inputs[0]).size() == 4) {
    return LowerByteMaxPool(builder, node);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const ByteTensor from = builder.TermsOf(node.inputs[i])[0];
    const std::string name = fmt::format("{}.{}", node.name, i);
    LAGOON_ASSIGN_OR_RETURN(const ByteTensor x, OnGrid(builder, name, from, grid));
    const Tensor& tensor = x.tensor;
    bytes.inputs[i] = builder.AddValue(node.name + ".x", DataType::kUInt8, tensor.dims);
    builder.Define(bytes.inputs[i], tensor);
  }
  for (ValueId& output : bytes.outputs) {
    if (output == kNoValue) continue;
    const Dims dims = builder.dims(output);
    output = builder.AddValue(node.name, DataType::kUInt8, dims);
  }
  LAGOON_RETURN_IF_ERROR(lower(builder, bytes));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == kNoValue) continue;
    const std::array<ValueId, 1> one{bytes.outputs[i]};
    LAGOON_ASSIGN_OR_RETURN(const Tensor y, builder.Use(one[0], builder.CheapestLayout(one)));
    builder.DefineBytes(i == 0 ? value : node.outputs[i], {{y, grid}});
  }
  return true;
}

}  // namespace lagoon
