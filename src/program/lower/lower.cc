#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>

#include "plan/element.h"
#include "plan/elementwise_ops.h"
#include "program/lower/builder.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

using LowerFunction = Status (*)(ProgramBuilder&, const Node&);

/// True if the right side and the bias are constants, so that kernels can pack them.
bool IsPacked(const ProgramBuilder& builder, const Node& node) {
  if (builder.dims(node.inputs[1]).size() != 2 || builder.dims(node.inputs[0]).size() < 2) {
    return false;
  }
  return std::all_of(node.inputs.begin() + 1, node.inputs.end(),
                     [&](ValueId id) { return id == kNoValue || builder.constant(id) != nullptr; });
}

/// True for a Gemm whose constants are in the normal form that fusion leaves.
bool IsNormalGemm(const ProgramBuilder& builder, const Node& node) {
  if (!IsPacked(builder, node) || node.Int("transA", 0) != 0) return false;
  if (node.Float("alpha", 1) != 1 || node.Float("beta", 1) != 1) return false;
  return node.inputs.size() < 3 || node.inputs[2] == kNoValue ||
         builder.dims(node.inputs[2]) == Dims{builder.dims(node.outputs[0]).back()};
}

Status LowerConverted(ProgramBuilder& builder, const Node& node, LowerFunction lower);

bool Is(const ProgramBuilder& builder, const Node& node, DataType type) {
  return builder.type(node.inputs[0]) == type;
}

Status LowerMatMul(ProgramBuilder& builder, const Node& node) {
  if (Is(builder, node, DataType::kFloat32)) {
    if (IsPacked(builder, node)) return LowerPackedMatMul(builder, node);
  } else if (Is(builder, node, DataType::kFloat16) || Is(builder, node, DataType::kBFloat16)) {
    return LowerConverted(builder, node, LowerMatMul);
  }
  LAGOON_RETURN_IF_ERROR(CheckNotFused(node));
  return LowerComputedMatMul(builder, node);
}

Status LowerMaxPool(ProgramBuilder& builder, const Node& node) {
  const DataType type = builder.type(node.inputs[0]);
  const bool converts = IsFloat(type) && type != DataType::kFloat32;
  return converts ? LowerConverted(builder, node, LowerPool) : LowerPool(builder, node);
}

Status LowerGemm(ProgramBuilder& builder, const Node& node) {
  if (!Is(builder, node, DataType::kFloat32)) {
    if (IsFloat(builder.type(node.inputs[0]))) return LowerConverted(builder, node, LowerGemm);
  } else if (IsNormalGemm(builder, node)) {
    return LowerPackedMatMul(builder, node);
  }
  LAGOON_RETURN_IF_ERROR(CheckNotFused(node));
  return LowerComputedGemm(builder, node);
}

struct Lowering {
  std::string_view op;
  LowerFunction lower;
  /// kFloat: computes in fp32. Inputs and outputs of other float types are converted; integers are
  /// not supported.
  enum Types : std::uint8_t { kAny, kFloat } types = kAny;
  bool fuses = false;  // true: supports Node::fused
};

constexpr auto kFloat = Lowering::kFloat;
constexpr auto kAny = Lowering::kAny;

/// Besides the ops of plan/elementwise_list.h that need no more than LowerUnary or LowerBinary.
constexpr Lowering kLowerings[] = {
    {"Conv", LowerConv, kFloat, true},
    {"ConvTranspose", LowerConvTranspose, kFloat},
    {"ConvInteger", LowerConvInteger},
    {"QLinearConv", LowerQLinearConv},
    {"Gemm", LowerGemm, kAny, true},
    {"MatMul", LowerMatMul, kAny, true},
    {"MatMulInteger", LowerMatMulInteger},
    {"QLinearMatMul", LowerQLinearMatMul},
    {"Einsum", LowerEinsum},
    {"BatchNormalization", LowerBatchNormalization, kFloat},
    {"ChannelAffine", LowerChannelAffine, kAny, true},
    {"InstanceNormalization", LowerInstanceNormalization, kFloat},
    {"GroupNormalization", LowerGroupNormalization, kFloat},
    {"LayerNormalization", LowerLayerNormalization, kFloat},
    {"RMSNormalization", LowerLayerNormalization},
    {"Attention", LowerAttention},
    {"MeanVarianceNormalization", LowerMeanVarianceNormalization, kFloat},
    {"LpNormalization", LowerLpNormalization, kFloat},
    {"LRN", LowerLrn, kFloat},
    {"LSTM", LowerRecurrent, kFloat},
    {"GRU", LowerRecurrent, kFloat},
    {"RNN", LowerRecurrent, kFloat},
    {"QuantizeLinear", LowerQuantizeLinear},
    {"DequantizeLinear", LowerDequantizeLinear},
    {"DynamicQuantizeLinear", LowerDynamicQuantizeLinear},
    {"Add", LowerBinary, kAny, true},
    {"Sum", LowerBinary},
    {"Mean", LowerBinary},
    {"BitShift", LowerBinary},
    {"Pow", LowerPow},
    {"Where", LowerWhere},
    {"Cast", LowerCast},
    {"MaxPool", LowerMaxPool},
    {"AveragePool", LowerPool, kFloat},
    {"LpPool", LowerPool, kFloat},
    {"GlobalAveragePool", LowerGlobalPool, kFloat},
    {"GlobalMaxPool", LowerGlobalPool, kFloat},
    {"GlobalLpPool", LowerGlobalLpPool, kFloat},
    {"ReduceMean", LowerReduce},
    {"ReduceSum", LowerReduce},
    {"ReduceMax", LowerReduce},
    {"ReduceMin", LowerReduce},
    {"ReduceProd", LowerReduce},
    {"ReduceL1", LowerReduce},
    {"ReduceL2", LowerReduce},
    {"ReduceLogSum", LowerReduce},
    {"ReduceLogSumExp", LowerReduce},
    {"ReduceSumSquare", LowerReduce},
    {"ArgMax", LowerArg},
    {"ArgMin", LowerArg},
    {"Hardmax", LowerHardmax},
    {"CumSum", LowerCumSum},
    {"TopK", LowerTopK},
    {"Softmax", LowerSoftmax, kFloat},
    {"LogSoftmax", LowerSoftmax, kFloat},
    {"Reshape", LowerView},
    {"Flatten", LowerView},
    {"Squeeze", LowerView},
    {"Unsqueeze", LowerView},
    {"Identity", LowerView},
    {"Dropout", LowerDropout},
    {"Transpose", LowerTranspose},
    {"Concat", LowerConcat},
    {"Split", LowerSplit},
    {"Slice", LowerSlice, kAny, true},
    {"Expand", LowerExpand},
    {"Pad", LowerPad},
    {"Tile", LowerTile},
    {"Resize", LowerResize},
    {"Trilu", LowerTrilu},
    {"EyeLike", LowerEyeLike},
    {"OneHot", LowerOneHot},
    {"Compress", LowerCompress},
    {"DepthToSpace", LowerDepthToSpace},
    {"SpaceToDepth", LowerSpaceToDepth},
    {"ReverseSequence", LowerReverseSequence},
    {"Gather", LowerGather},
    {"GatherElements", LowerGatherElements},
    {"GatherND", LowerGatherND},
    {"ScatterElements", LowerScatterElements},
    {"ScatterND", LowerScatterND},
};

Constant ToFloat32(const Constant& constant) {
  return WithElementType(constant.type, [&]<typename T>(std::type_identity<T>) {
    const std::size_t count = constant.bytes->size() / sizeof(T);
    auto bytes = std::make_shared<std::vector<std::byte>>(count * sizeof(float));
    for (std::size_t i = 0; i < count; ++i) {
      T from;
      std::memcpy(&from, constant.bytes->data() + i * sizeof(T), sizeof(T));
      const auto to = ConvertElement<float>(from);
      std::memcpy(bytes->data() + i * sizeof(float), &to, sizeof(float));
    }
    return Constant{DataType::kFloat32, constant.dims, std::move(bytes)};
  });
}

/// An fp32 value with the contents of `value`.
Result<ValueId> InFloat32(ProgramBuilder& builder, ValueId value) {
  const std::string name = builder.graph().value(value).name + ":fp32";
  if (const Constant* constant = builder.constant(value)) {
    return builder.AddValue(name, ToFloat32(*constant));
  }
  const std::array<ValueId, 1> one{value};
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(value, builder.CheapestLayout(one)));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitCast(builder, name, x, DataType::kFloat32));
  const ValueId id = builder.AddValue(name, DataType::kFloat32, x.dims);
  builder.Define(id, y);
  return id;
}

/// Lowers a node with floats that are not all fp32: converts its inputs and outputs.
Status LowerConverted(ProgramBuilder& builder, const Node& node, LowerFunction lower) {
  Node fp32 = node;
  for (ValueId& input : fp32.inputs) {
    if (input == kNoValue || !IsFloat(builder.type(input))) continue;
    if (builder.type(input) == DataType::kFloat32) continue;
    LAGOON_ASSIGN_OR_RETURN(input, InFloat32(builder, input));
  }
  for (ValueId& output : fp32.outputs) {
    if (output == kNoValue || !IsFloat(builder.type(output))) continue;
    const std::string name = builder.graph().value(output).name + ":fp32";
    const Dims dims = builder.dims(output);
    output = builder.AddValue(name, DataType::kFloat32, dims);
  }
  LAGOON_RETURN_IF_ERROR(lower(builder, fp32));
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (fp32.outputs[i] == node.outputs[i]) continue;
    const std::array<ValueId, 1> one{fp32.outputs[i]};
    LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(one[0], builder.CheapestLayout(one)));
    LAGOON_ASSIGN_OR_RETURN(const Tensor y,
                            EmitCast(builder, node.name, x, builder.type(node.outputs[i])));
    builder.Define(node.outputs[i], y);
  }
  return {};
}

/// True if all float inputs are fp32. Fails if input 0, which determines the type of the
/// computation, is not a float.
Result<bool> IsFloat32(const ProgramBuilder& builder, const Node& node) {
  bool all = true;
  for (const ValueId input : node.inputs) {
    if (input == kNoValue) continue;
    const DataType type = builder.type(input);
    if (input == node.inputs[0] && !IsFloat(type)) {
      return Fail(ErrorCode::kUnimplemented, fmt::format("is not supported on {}", OipName(type)));
    }
    all = all && (type == DataType::kFloat32 || !IsFloat(type));
  }
  return all;
}

/// Null if no kernel computes the op.
const Lowering* FindLowering(std::string_view op) {
  static constexpr Lowering kUnary{"", LowerUnary}, kBinary{"", LowerBinary};
  const auto* const found = std::find_if(std::begin(kLowerings), std::end(kLowerings),
                                         [&](const Lowering& l) { return l.op == op; });
  if (found != std::end(kLowerings)) return found;
  if (elementwise::FindUnary(op) != nullptr) return &kUnary;
  return elementwise::FindBinary(op) != nullptr ? &kBinary : nullptr;
}

Status LowerNode(ProgramBuilder& builder, const Node& node) {
  const Lowering* found = FindLowering(node.op);
  if (found == nullptr) return Fail(ErrorCode::kUnimplemented, "the op has no kernel");
  if (!found->fuses) LAGOON_RETURN_IF_ERROR(CheckNotFused(node));
  if (found->types == kAny) return found->lower(builder, node);
  LAGOON_ASSIGN_OR_RETURN(const bool fp32, IsFloat32(builder, node));
  return fp32 ? found->lower(builder, node) : LowerConverted(builder, node, found->lower);
}

Result<std::uint32_t> ToSize(std::int64_t value, std::string_view what) {
  if (value < 0 || value > std::numeric_limits<std::int32_t>::max()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is {}, outside 0..2^31", what, value));
  }
  return static_cast<std::uint32_t>(value);
}

}  // namespace

Status CheckNotFused(const Node& node) {
  if (node.fused.residual == kNoValue && node.fused.activation == ActivationKind::kNone) return {};
  return Fail(ErrorCode::kInternal, "nothing can be fused into this op");
}

Epilogue EpilogueOf(const Fused& fused) {
  Epilogue epilogue;
  epilogue.residual_last = fused.residual_last;
  switch (fused.activation) {
    case ActivationKind::kNone:
      break;
    case ActivationKind::kRelu:
      epilogue.activation = Activation::kRelu;
      break;
    case ActivationKind::kClip:
      epilogue.activation = Activation::kClip;
      epilogue.low = fused.low;
      epilogue.high = fused.high;
      break;
    case ActivationKind::kOp:
      SetFunction(fused, epilogue);
      break;
  }
  return epilogue;
}

Result<ImageShape> ImageOf(const Dims& dims) {
  if (dims.size() != 4) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("takes images of rank 4, not {}", ToString(dims)));
  }
  ImageShape image;
  LAGOON_ASSIGN_OR_RETURN(image.batch, ToSize(dims[0], "the batch"));
  LAGOON_ASSIGN_OR_RETURN(image.channels, ToSize(dims[1], "the number of channels"));
  LAGOON_ASSIGN_OR_RETURN(image.height, ToSize(dims[2], "the height"));
  LAGOON_ASSIGN_OR_RETURN(image.width, ToSize(dims[3], "the width"));
  return image;
}

Result<ImageNode> ImageNodeOf(const ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const ImageShape in, ImageOf(builder.dims(node.inputs[0])));
  LAGOON_ASSIGN_OR_RETURN(const ImageShape out, ImageOf(builder.dims(node.outputs[0])));
  ImageNode image;
  image.in_channels = in.channels;
  image.out_channels = out.channels;
  ImageWindow& window = image.window;
  window.batch = in.batch;
  window.height = in.height;
  window.width = in.width;
  window.out_height = out.height;
  window.out_width = out.width;
  struct Field {
    const char* attribute;
    std::vector<std::uint32_t*> values;
  };
  for (const Field& field :
       {Field{"kernel_shape", {&window.kernel_h, &window.kernel_w}},
        Field{"strides", {&window.stride_h, &window.stride_w}},
        Field{"dilations", {&window.dilation_h, &window.dilation_w}},
        Field{"pads", {&window.pad_top, &window.pad_left, &image.pad_bottom, &image.pad_right}}}) {
    const std::vector<std::int64_t> given = node.Ints(field.attribute, {});
    if (given.size() != field.values.size()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("'{}' has {} values, a window of two dimensions takes {}",
                              field.attribute, given.size(), field.values.size()));
    }
    for (std::size_t i = 0; i < given.size(); ++i) {
      LAGOON_ASSIGN_OR_RETURN(*field.values[i], ToSize(given[i], field.attribute));
    }
  }
  return image;
}

Result<LoweredProgram> Lower(Graph graph, const std::string& model, const LowerOptions& options) {
  const std::vector<Node> nodes = std::move(graph.nodes);
  const std::int64_t opset = graph.opset;
  const std::string where = fmt::format("model '{}'", model);
  auto builder = ProgramBuilder::Create(std::move(graph), options);
  if (!builder) return Annotate(where, std::move(builder).error());
  for (const Node& node : nodes) {
    Status lowered = LowerNode(*builder, node);
    if (lowered) continue;
    const std::string at =
        fmt::format("{}: node '{}' ({}, opset {})", where, node.name, node.op, opset);
    return Annotate(at, std::move(lowered).error());
  }
  auto program = std::move(*builder).Finish();
  if (!program) return Annotate(where, std::move(program).error());
  return program;
}

}  // namespace lagoon
