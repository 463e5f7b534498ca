#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "program/builder.h"
#include "program/lower_nodes.h"

namespace lagoon {
namespace {

using LowerFunction = Status (*)(ProgramBuilder&, const Node&);

struct Lowering {
  std::string_view op;
  LowerFunction lower;
  bool fuses = false;  // whether it honours Node::fused
};

constexpr Lowering kLowerings[] = {
    {"Conv", LowerConv, true},
    {"Gemm", LowerMatMul, true},
    {"MatMul", LowerMatMul, true},
    {"Add", LowerBinary, true},
    {"Sub", LowerBinary},
    {"Mul", LowerBinary},
    {"Div", LowerBinary},
    {"Pow", LowerBinary},
    {"Min", LowerBinary},
    {"Max", LowerBinary},
    {"Sum", LowerBinary},
    {"Relu", LowerUnary},
    {"Clip", LowerUnary},
    {"Sigmoid", LowerUnary},
    {"Tanh", LowerUnary},
    {"Exp", LowerUnary},
    {"Log", LowerUnary},
    {"Sqrt", LowerUnary},
    {"Abs", LowerUnary},
    {"Neg", LowerUnary},
    {"LeakyRelu", LowerUnary},
    {"HardSwish", LowerUnary},
    {"HardSigmoid", LowerUnary},
    {"MaxPool", LowerPool},
    {"AveragePool", LowerPool},
    {"GlobalAveragePool", LowerGlobalPool},
    {"GlobalMaxPool", LowerGlobalPool},
    {"ReduceMean", LowerReduce},
    {"ReduceSum", LowerReduce},
    {"ReduceMax", LowerReduce},
    {"ReduceMin", LowerReduce},
    {"Softmax", LowerSoftmax},
    {"LogSoftmax", LowerSoftmax},
    {"Reshape", LowerView},
    {"Flatten", LowerView},
    {"Squeeze", LowerView},
    {"Unsqueeze", LowerView},
    {"Identity", LowerView},
    {"Dropout", LowerView},
    {"Transpose", LowerTranspose},
    {"Concat", LowerConcat},
    {"Split", LowerSplit},
    {"Slice", LowerSlice},
    {"Pad", LowerPad},
};

Status LowerNode(ProgramBuilder& builder, const Node& node) {
  const auto* const found = std::find_if(std::begin(kLowerings), std::end(kLowerings),
                                         [&](const Lowering& l) { return l.op == node.op; });
  if (found == std::end(kLowerings)) {
    return Fail(ErrorCode::kUnimplemented, "the op has no kernel");
  }
  if (!found->fuses) LAGOON_RETURN_IF_ERROR(CheckNotFused(node));
  return found->lower(builder, node);
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

Result<WindowShape> WindowOf(const Node& node) {
  WindowShape window;
  struct Field {
    const char* attribute;
    std::vector<std::uint32_t*> values;
  };
  for (const Field& field :
       {Field{"kernel_shape", {&window.kernel_h, &window.kernel_w}},
        Field{"strides", {&window.stride_h, &window.stride_w}},
        Field{"dilations", {&window.dilation_h, &window.dilation_w}},
        Field{"pads",
              {&window.pad_top, &window.pad_left, &window.pad_bottom, &window.pad_right}}}) {
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
  return window;
}

Result<LoweredProgram> Lower(Graph graph, const std::string& model) {
  const std::vector<Node> nodes = std::move(graph.nodes);
  const std::int64_t opset = graph.opset;
  const std::string where = fmt::format("model '{}'", model);
  auto builder = ProgramBuilder::Create(std::move(graph));
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
