#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <unordered_map>

#include "base/check.h"
#include "plan/element.h"
#include "plan/elementwise_ops.h"
#include "program/lower/builder.h"
#include "program/lower/emit.h"
#include "program/lower/lower_bytes.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

Constant ToFloat32(const Constant& constant) {
  const auto convert = [](std::span<const Constant> sources) {
    const Constant& from = sources[0];
    return WithElementType(from.type, [&]<typename T>(std::type_identity<T>) {
      const std::size_t count = from.bytes.size() / sizeof(T);
      ConstantData::Bytes bytes(count * sizeof(float));
      for (std::size_t i = 0; i < count; ++i) {
        T element;
        std::memcpy(&element, from.bytes->data() + i * sizeof(T), sizeof(T));
        const auto to = ConvertElement<float>(element);
        std::memcpy(bytes.data() + i * sizeof(float), &to, sizeof(float));
      }
      return bytes;
    });
  };
  return DerivedConstant(DataType::kFloat32, constant.dims, "to fp32", {constant}, convert);
}

/// An fp32 value with the contents of `value`.
Result<ValueId> InFloat32(ProgramBuilder& builder, ValueId value) {
  if (const ValueId wide = builder.WideOf(value); wide != kNoValue) return wide;
  const std::string name = builder.graph().value(value).name + ":fp32";
  if (const Constant* constant = builder.constant(value)) {
    return builder.AddValue(name, ToFloat32(*constant), builder.KeyOf(value) + " fp32");
  }
  const std::array<ValueId, 1> one{value};
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(value, builder.CheapestLayout(one)));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitCast(builder, name, x, DataType::kFloat32));
  const ValueId id = builder.AddValue(name, DataType::kFloat32, x.dims);
  builder.Define(id, y);
  return id;
}

}  // namespace

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
    if (builder.type(node.outputs[i]) != DataType::kFloat32) {
      builder.DefineWide(node.outputs[i], fp32.outputs[i]);
      continue;
    }
    const std::array<ValueId, 1> one{fp32.outputs[i]};
    LAGOON_ASSIGN_OR_RETURN(const Tensor y, builder.Use(one[0], builder.CheapestLayout(one)));
    builder.Define(node.outputs[i], y);
  }
  return {};
}

namespace {

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

/// True if the node is to be computed in fp32: it reads a float of 16 bits, and none of 64. A node
/// that moves elements must read floats of 16 bits that are in fp32 already, and else constants.
bool IsWidened(const ProgramBuilder& builder, const Node& node, Lowering::Types types) {
  if (types == Lowering::kAny || node.fused.residual != kNoValue) return false;
  bool widened = false;
  for (const ValueId input : node.inputs) {
    if (input == kNoValue || !IsFloat(builder.type(input))) continue;
    if (builder.type(input) == DataType::kFloat64) return false;
    if (builder.type(input) == DataType::kFloat32) continue;
    const bool in_fp32 = builder.WideOf(input) != kNoValue;
    const bool moves = types == Lowering::kMoves;
    if (moves && !in_fp32 && builder.constant(input) == nullptr) return false;
    widened = widened || !moves || in_fp32;
  }
  return widened;
}

using Table = std::unordered_map<std::string_view, const Lowering*>;

/// The families; no two have the same op.
Table JoinFamilies() {
  Table table;
  for (const std::span<const Lowering> family :
       {AttentionLowerings(), EinsumLowerings(), ElementwiseLowerings(), IndexLowerings(),
        IntegerConvLowerings(), IntegerLinearLowerings(), MatmulLowerings(), MoveLowerings(),
        NbitsLowerings(), NormalizeLowerings(), QuantizeLowerings(), RecurrentLowerings(),
        ReduceLowerings(), ResizeLowerings(), SampleLowerings(), SelectLowerings(), TakeLowerings(),
        WindowLowerings()}) {
    for (const Lowering& lowering : family) {
      const bool is_new = table.emplace(lowering.op, &lowering).second;
      LAGOON_CHECK(is_new);
    }
  }
  return table;
}

/// Null if no kernel computes the op.
const Lowering* FindLowering(std::string_view op) {
  static constexpr Lowering kUnary{"", LowerUnary, Lowering::kWide};
  static constexpr Lowering kBinary{"", LowerBinary, Lowering::kWide};
  static const Table table = JoinFamilies();
  const auto found = table.find(op);
  if (found != table.end()) return found->second;
  if (elementwise::FindUnary(op) != nullptr) return &kUnary;
  return elementwise::FindBinary(op) != nullptr ? &kBinary : nullptr;
}

Status LowerWithElements(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const std::optional<Node> flat, OnFlatVolumes(builder, node));
  if (flat) return LowerWithElements(builder, *flat);
  const Lowering* found = FindLowering(node.op);
  if (found == nullptr) return Fail(ErrorCode::kUnimplemented, "the op has no kernel");
  if (!found->fuses) LAGOON_RETURN_IF_ERROR(CheckNotFused(node));
  if (found->types != Lowering::kFloat) {
    const bool widened = IsWidened(builder, node, found->types);
    return widened ? LowerConverted(builder, node, found->lower) : found->lower(builder, node);
  }
  LAGOON_ASSIGN_OR_RETURN(const bool fp32, IsFloat32(builder, node));
  return fp32 ? found->lower(builder, node) : LowerConverted(builder, node, found->lower);
}

bool HasEmptyValue(const ProgramBuilder& builder, const Node& node) {
  const auto is_empty = [&](ValueId id) {
    return id != kNoValue && ElementCount(builder.dims(id)) == 0;
  };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_empty) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is_empty);
}

/// Lowers a node on bytes, if it can be computed on them.
Result<bool> TryLowerBytes(ProgramBuilder& builder, const Node& node) {
  if (builder.flow() == nullptr || node.outputs.empty() || node.outputs[0] == kNoValue ||
      builder.type(node.outputs[0]) != DataType::kFloat32 ||
      builder.graph().value(node.outputs[0]).sizes != kNoValue) {
    return false;
  }
  if (builder.flow()->IsInTables(node)) return true;
  LAGOON_ASSIGN_OR_RETURN(const bool table, TryLowerByteTable(builder, node, LowerWithElements));
  if (table) return true;
  if (node.op == "FakeQuantize") return TryLowerByteFake(builder, node);
  if (node.op == "DequantizeLinear") return TryLowerByteDequantize(builder, node);
  if (node.op == "Add") return TryLowerByteSum(builder, node);
  if (node.op == "Relu" || node.op == "Clip") return TryLowerByteLimit(builder, node);
  if (node.packed) return TryLowerByteLinear(builder, node);
  return TryLowerByteMove(builder, node, LowerWithElements);
}

Status LowerNode(ProgramBuilder& builder, const Node& node) {
  if (node.opaque != nullptr) return LowerOpaque(builder, node);
  if (HasEmptyValue(builder, node)) return LowerEmpty(builder, node, LowerWithElements);
  LAGOON_ASSIGN_OR_RETURN(const bool lowered, TryLowerBytes(builder, node));
  if (lowered) return {};
  return LowerWithElements(builder, node);
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

Dims Widened(const Dims& dims) {
  Dims wide = dims;
  wide.insert(wide.begin() + 2, 1);
  return wide;
}

Node WithImageWindow(const Node& node) {
  Node image = node;
  for (const auto& [attribute, one] :
       {std::pair{"kernel_shape", 1}, std::pair{"strides", 1}, std::pair{"dilations", 1},
        std::pair{"pads", 0}, std::pair{"counted_pads", 0}}) {
    if (!node.attributes.contains(attribute)) continue;
    std::vector<std::int64_t> values = node.Ints(attribute, {});
    const auto half = static_cast<std::ptrdiff_t>(values.size() / 2);
    // Pads are two lists: the beginnings of the axes and their ends.
    if (one == 0) values.insert(values.begin() + half, one);
    values.insert(values.begin(), one);
    image.attributes[attribute] = std::move(values);
  }
  return image;
}

Result<ImageNode> ImageNodeOf(const ProgramBuilder& builder, const Node& line_or_image) {
  const bool line = builder.dims(line_or_image.inputs[0]).size() == 3;
  const Node node = line ? WithImageWindow(line_or_image) : line_or_image;
  const auto image_of = [&](ValueId value) {
    return ImageOf(line ? Widened(builder.dims(value)) : builder.dims(value));
  };
  LAGOON_ASSIGN_OR_RETURN(const ImageShape in, image_of(node.inputs[0]));
  LAGOON_ASSIGN_OR_RETURN(const ImageShape out, image_of(node.outputs[0]));
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

namespace {

/// By value: how many operands of nodes and outputs of the graph it is.
std::vector<std::uint32_t> CountReads(const Graph& graph) {
  std::vector<std::uint32_t> reads(graph.values.size());
  const auto count = [&](ValueId value) {
    if (value != kNoValue) ++reads[static_cast<std::size_t>(value)];
  };
  for (const Node& node : graph.nodes) {
    for (const ValueId input : node.inputs) count(input);
    count(node.fused.residual);
  }
  for (const ValueId output : graph.outputs) count(output);
  return reads;
}

/// ProgramBuilder::SetReadByProducts().
std::vector<bool> ReadByProducts(const Graph& graph) {
  std::vector<bool> read(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (node.op != "MatMul" || node.packed) continue;
    for (const ValueId input : node.inputs) read[static_cast<std::size_t>(input)] = true;
  }
  return read;
}

/// ProgramBuilder::SetReadAsImages().
std::vector<bool> ReadAsImages(const Graph& graph) {
  constexpr std::array kImageOps{"Conv", "ConvTranspose", "MaxPool", "AveragePool",
                                 "ChannelAffine"};
  constexpr std::array kAnyLayout{"Add",  "Mul",       "Sub",          "Div",
                                  "Clip", "Relu",      "Sigmoid",      "Swish",
                                  "Cast", "HardSwish", "FakeQuantize", "QuantizeLinear",
                                  "Pad",  "Concat",    "Resize",       "DequantizeLinear"};
  std::vector<bool> read(graph.values.size());
  const auto is = [](const auto& ops, const Node& node) {
    return std::ranges::find(ops, node.op) != ops.end();
  };
  const auto is_read = [&](ValueId value) {
    return value != kNoValue && read[static_cast<std::size_t>(value)];
  };
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool passes = is(kAnyLayout, *node) && std::ranges::any_of(node->outputs, is_read);
    if (!passes && !is(kImageOps, *node)) continue;
    for (const ValueId input : node->inputs) {
      if (input != kNoValue) read[static_cast<std::size_t>(input)] = true;
    }
  }
  return read;
}

}  // namespace

Result<LoweredProgram> Lower(Graph graph, const std::string& model, const LowerOptions& options) {
  std::vector<std::uint32_t> reads = CountReads(graph);
  std::vector<bool> read_as_images = ReadAsImages(graph);
  std::vector<bool> read_by_products = ReadByProducts(graph);
  const std::vector<Node> nodes = std::move(graph.nodes);
  const std::int64_t opset = graph.opset;
  const std::string where = fmt::format("model '{}'", model);
  auto builder = ProgramBuilder::Create(std::move(graph), options);
  if (!builder) return Annotate(where, std::move(builder).error());
  builder->SetReads(std::move(reads));
  builder->SetReadAsImages(std::move(read_as_images));
  builder->SetReadByProducts(std::move(read_by_products));
  if (ComputesOnBytes(options)) {
    builder->SetFlow(std::make_shared<const ByteFlow>(builder->graph(), nodes));
  }
  for (const Node& node : nodes) {
    Status lowered = LowerNode(*builder, node);
    if (lowered && builder->defined_wrongly())
      lowered = tl::unexpected(*builder->defined_wrongly());
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
