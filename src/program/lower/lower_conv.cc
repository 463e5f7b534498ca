// Conv, Gemm and MatMul. All three use the conv2d body, except for convolutions in groups.

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "kernels/conv/conv2d.h"
#include "kernels/ops.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

using Fill = std::function<void(std::byte*)>;

/// One convolution or product: y = activation(x * weights + bias + residual).
struct DenseOp {
  std::string name;
  Conv2dSpec spec;
  Constant weights;  // [N,K], or a matrix [K,N] if not `transposed`
  bool transposed = true;
  std::string key;  // key of the weights
  Tensor x, y;
  std::optional<Operand> bias;
  std::optional<Tensor> residual;
};

/// Key of the weights of `op` in the form that `packed` takes.
std::string WeightsKey(const DenseOp& op, const PackedKernel& packed) {
  const Conv2dSpec& spec = op.spec;
  return fmt::format("{} {} {} {} {}x{}x{}x{}", op.key, packed.form, Name(spec.precision),
                     op.transposed, spec.out_channels, spec.in_channels, spec.window.kernel_h,
                     spec.window.kernel_w);
}

/// The matrix [rows][columns] as [columns][rows], in squares that stay in a core's cache.
std::vector<float> Flipped(std::span<const float> matrix, std::size_t rows, std::size_t columns) {
  constexpr std::size_t kSide = 32;
  std::vector<float> flipped(matrix.size());
  for (std::size_t top = 0; top < rows; top += kSide) {
    const std::size_t bottom = std::min(top + kSide, rows);
    for (std::size_t left = 0; left < columns; left += kSide) {
      const std::size_t right = std::min(left + kSide, columns);
      for (std::size_t j = left; j < right; ++j) {
        for (std::size_t i = top; i < bottom; ++i) flipped[j * rows + i] = matrix[i * columns + j];
      }
    }
  }
  return flipped;
}

Fill FillOf(const DenseOp& op, const PackedKernel& packed) {
  if (op.transposed || packed.pack_flipped) {
    const auto& pack = op.transposed ? packed.pack : packed.pack_flipped;
    return [weights = op.weights, pack](std::byte* to) {
      pack(weights.floats().data(), to);
      weights.bytes.Release();
    };
  }
  const std::size_t k = op.spec.in_channels, n = op.spec.out_channels;
  return [weights = op.weights, pack = packed.pack, k, n](std::byte* to) {
    const std::vector<float> flipped = Flipped(weights.floats(), k, n);
    weights.bytes.Release();
    pack(flipped.data(), to);
  };
}

/// The operands for bias and residual, if there are any.
std::vector<Operand> Addends(const ProgramBuilder& builder, const DenseOp& op) {
  std::vector<Operand> addends;
  if (op.bias) addends.push_back(*op.bias);
  if (op.residual) addends.push_back(builder.All(*op.residual));
  return addends;
}

Status EmitDense(ProgramBuilder& builder, DenseOp op) {
  op.spec.bias = op.bias.has_value();
  op.spec.epilogue.residual = op.residual.has_value();
  op.spec.all_versions = builder.options().all_versions;
  const std::vector<Operand> addends = Addends(builder, op);
  std::vector<Operand> data = addends;
  data.push_back(builder.All(op.x));
  LAGOON_ASSIGN_OR_RETURN(PackedKernel packed, builder.MakerFor(data).Conv2d(op.spec));
  const BufferId weights = builder.AddConstant(op.name + ".weights", packed.weight_bytes,
                                               FillOf(op, packed), WeightsKey(op, packed));
  std::vector<Operand> inputs{builder.All(op.x), builder.All(weights)};
  if (!packed.sum) {
    inputs.insert(inputs.end(), addends.begin(), addends.end());
    return builder.Emit(op.name, std::move(packed.kernel), std::move(inputs), {builder.All(op.y)});
  }
  const auto count = static_cast<std::int64_t>(packed.parts_bytes / sizeof(float));
  const Tensor parts = builder.NewTensor(op.name + ".parts", {count}, Layout::kPlain);
  LAGOON_RETURN_IF_ERROR(builder.Emit(op.name + ".parts", std::move(packed.kernel),
                                      std::move(inputs), {builder.All(parts)}));
  std::vector<Operand> summed{builder.All(parts)};
  summed.insert(summed.end(), addends.begin(), addends.end());
  return builder.Emit(op.name, *std::move(packed.sum), std::move(summed), {builder.All(op.y)});
}

/// The bias input of a node as an operand, if it has one.
Result<std::optional<Operand>> BiasOf(ProgramBuilder& builder, const Node& node,
                                      std::uint32_t channels) {
  if (node.inputs.size() < 3 || node.inputs[2] == kNoValue) return std::optional<Operand>();
  LAGOON_ASSIGN_OR_RETURN(const Tensor bias, builder.Use(node.inputs[2], Layout::kPlain));
  if (bias.dims != Dims{channels}) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("bias is {}, the output asks for [{}]", ToString(bias.dims), channels));
  }
  return std::optional(builder.All(bias));
}

/// The fused residual of a node in the layout of its output, if it has one.
Result<std::optional<Tensor>> ResidualOf(ProgramBuilder& builder, const Node& node, Layout layout) {
  if (node.fused.residual == kNoValue) return std::optional<Tensor>();
  const Dims& dims = builder.dims(node.fused.residual);
  if (dims != builder.dims(node.outputs[0])) {
    return Fail(ErrorCode::kInternal,
                fmt::format("the residual is {} and the output {}", ToString(dims),
                            ToString(builder.dims(node.outputs[0]))));
  }
  LAGOON_ASSIGN_OR_RETURN(Tensor residual, builder.Use(node.fused.residual, layout));
  return std::optional(std::move(residual));
}

/// Shared by the three ways to lower a Conv node.
struct ConvNode {
  ImageNode image;
  std::uint32_t groups = 1;
  Constant weights;
  std::optional<Operand> bias;
  std::string key;  // key of the weights
  bool shares_weights = false;
};

Result<ConvNode> ReadConv(ProgramBuilder& builder, const Node& node) {
  ConvNode conv;
  conv.shares_weights = builder.options().shares_weights;
  LAGOON_ASSIGN_OR_RETURN(conv.image, ImageNodeOf(builder, node));
  LAGOON_ASSIGN_OR_RETURN(conv.weights, builder.FloatConstant(node.inputs[1], "weights"));
  conv.key = builder.KeyOf(node.inputs[1]);
  const std::int64_t groups = node.Int("group", 1);
  if (groups < 1 || conv.image.in_channels % groups != 0 || conv.image.out_channels % groups != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("group is {}, which does not divide {} and {} channels", groups,
                            conv.image.in_channels, conv.image.out_channels));
  }
  conv.groups = static_cast<std::uint32_t>(groups);
  const Dims expected{conv.image.out_channels, conv.image.in_channels / conv.groups,
                      conv.image.window.kernel_h, conv.image.window.kernel_w};
  if (conv.weights.dims != expected) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("weights are {}, the values around them ask for {}",
                            ToString(conv.weights.dims), ToString(expected)));
  }
  LAGOON_ASSIGN_OR_RETURN(conv.bias, BiasOf(builder, node, conv.image.out_channels));
  return conv;
}

Status LowerDense(ProgramBuilder& builder, const Node& node, const ConvNode& conv) {
  DenseOp op;
  op.name = node.name;
  op.spec.precision = builder.precision();
  op.spec.window = conv.image.window;
  op.spec.epilogue = EpilogueOf(node.fused);
  op.spec.in_channels = conv.image.in_channels;
  op.spec.out_channels = conv.image.out_channels;
  op.spec.any_rows = conv.shares_weights;
  op.bias = conv.bias;
  op.weights = conv.weights;
  op.key = conv.key;
  LAGOON_ASSIGN_OR_RETURN(op.x, builder.Use(node.inputs[0], Layout::kChannelsLast));
  LAGOON_ASSIGN_OR_RETURN(op.residual, ResidualOf(builder, node, Layout::kChannelsLast));
  op.y = builder.NewTensor(node.name, builder.dims(node.outputs[0]), Layout::kChannelsLast);
  builder.Define(node.outputs[0], op.y);
  return EmitDense(builder, std::move(op));
}

/// The operands x and, if there is one, the bias.
std::vector<Operand> DataOf(const ProgramBuilder& builder, const ConvNode& conv, const Tensor& x) {
  std::vector<Operand> data{builder.All(x)};
  if (conv.bias) data.push_back(*conv.bias);
  return data;
}

/// Emits a convolution that is not dense.
Status EmitSparse(ProgramBuilder& builder, const Node& node, const ConvNode& conv, const Tensor& x,
                  PackedKernel packed) {
  const BufferId weights = builder.AddConstant(
      node.name + ".weights", packed.weight_bytes,
      [weights = conv.weights, pack = packed.pack](std::byte* to) {
        pack(weights.floats().data(), to);
        weights.bytes.Release();
      },
      fmt::format("{} {} {}", conv.key, packed.form, packed.kernel.name));
  const Tensor y =
      builder.NewTensor(node.name, builder.dims(node.outputs[0]), Layout::kChannelsLast);
  std::vector<Operand> inputs{builder.All(x), builder.All(weights)};
  if (conv.bias) inputs.push_back(*conv.bias);
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name, std::move(packed.kernel), std::move(inputs), {builder.All(y)});
}

Status LowerDepthwise(ProgramBuilder& builder, const Node& node, const ConvNode& conv) {
  DepthwiseSpec spec;
  spec.window = conv.image.window;
  spec.epilogue = EpilogueOf(node.fused);
  spec.channels = conv.image.in_channels;
  spec.bias = conv.bias.has_value();
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kChannelsLast));
  LAGOON_ASSIGN_OR_RETURN(PackedKernel packed,
                          builder.MakerFor(DataOf(builder, conv, x)).Depthwise(spec));
  return EmitSparse(builder, node, conv, x, std::move(packed));
}

Status LowerGroups(ProgramBuilder& builder, const Node& node, const ConvNode& conv) {
  GroupedConvSpec spec;
  spec.window = conv.image.window;
  spec.epilogue = EpilogueOf(node.fused);
  spec.in_channels = conv.image.in_channels;
  spec.out_channels = conv.image.out_channels;
  spec.groups = conv.groups;
  spec.bias = conv.bias.has_value();
  if (!FitsGroupedConv(spec)) return LowerDirectConv(builder, node);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kChannelsLast));
  LAGOON_ASSIGN_OR_RETURN(PackedKernel packed,
                          builder.MakerFor(DataOf(builder, conv, x)).GroupedConv(spec));
  return EmitSparse(builder, node, conv, x, std::move(packed));
}

/// True if w is [N,K], the order of a convolution's weights, instead of [K,N].
bool IsTransposed(const Node& node) { return node.op == "Gemm" && node.Int("transB", 0) != 0; }

Status CheckGemmNormalForm(const Node& node) {
  if (node.op != "Gemm") return {};
  if (node.Int("transA", 0) == 0 && node.Float("alpha", 1) == 1 && node.Float("beta", 1) == 1) {
    return {};
  }
  return Fail(ErrorCode::kInternal,
              fmt::format("transA {}, alpha {} and beta {} are not in the normal form",
                          node.Int("transA", 0), node.Float("alpha", 1), node.Float("beta", 1)));
}

}  // namespace

Status LowerImageConv(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const ConvNode conv, ReadConv(builder, node));
  if (conv.groups == 1) return LowerDense(builder, node, conv);
  if (node.fused.residual != kNoValue) {
    return Fail(ErrorCode::kInternal,
                fmt::format("a residual is fused into a Conv of {} groups", conv.groups));
  }
  if (conv.groups == conv.image.in_channels && conv.groups == conv.image.out_channels) {
    return LowerDepthwise(builder, node, conv);
  }
  return LowerGroups(builder, node, conv);
}

Status LowerPackedMatMul(ProgramBuilder& builder, const Node& node) {
  LAGOON_RETURN_IF_ERROR(CheckGemmNormalForm(node));
  LAGOON_ASSIGN_OR_RETURN(Constant weights, builder.FloatConstant(node.inputs[1], "weights"));
  const bool transposed = IsTransposed(node);
  const Dims x_dims = builder.dims(node.inputs[0]);
  const Dims y_dims = builder.dims(node.outputs[0]);
  if (weights.dims.size() != 2 || x_dims.empty() || y_dims.empty() ||
      weights.dims[transposed ? 1 : 0] != x_dims.back() ||
      weights.dims[transposed ? 0 : 1] != y_dims.back()) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("{} times weights {}, giving {}: the weights must be one matrix",
                            ToString(x_dims), ToString(weights.dims), ToString(y_dims)));
  }
  const Dims rows{ElementCount(x_dims) / x_dims.back(), x_dims.back(), 1, 1};
  LAGOON_ASSIGN_OR_RETURN(const ImageShape in, ImageOf(rows));
  LAGOON_ASSIGN_OR_RETURN(const ImageShape out, ImageOf({rows[0], y_dims.back(), 1, 1}));
  DenseOp op;
  op.name = node.name;
  op.spec.window.height = op.spec.window.out_height = in.batch;
  op.spec.in_channels = in.channels;
  op.spec.out_channels = out.channels;
  op.spec.precision = builder.precision();
  op.spec.epilogue = EpilogueOf(node.fused);
  op.spec.any_rows = builder.options().shares_weights;
  LAGOON_ASSIGN_OR_RETURN(op.bias, BiasOf(builder, node, out.channels));
  LAGOON_ASSIGN_OR_RETURN(op.residual, ResidualOf(builder, node, Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(op.x, builder.Use(node.inputs[0], Layout::kPlain));
  op.y = builder.NewTensor(node.name, y_dims, Layout::kPlain);
  op.key = builder.KeyOf(node.inputs[1]);
  op.transposed = transposed;
  op.weights = std::move(weights);
  builder.Define(node.outputs[0], op.y);
  return EmitDense(builder, std::move(op));
}

}  // namespace lagoon
