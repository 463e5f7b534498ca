// Conversions between floats and small integers with a scale and a zero point.

#include <fmt/format.h>

#include "base/text.h"
#include "graph/fold/evaluate.h"
#include "graph/ops/shape_rules.h"

namespace lagoon {
namespace {

Status CheckScaleType(const OpContext& context) {
  const Value& scale = context.input(1);
  if (IsFloat(scale.type)) return {};
  return context.Invalid(
      fmt::format("scale {} is {}, it must be a float", Quoted(scale.name), OipName(scale.type)));
}

/// A scale per block: as x, but with one element for `block` of them along the axis.
Status CheckBlocks(OpContext& context, std::int64_t block) {
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", 1), context.rank(0)));
  Dims expected = context.dims(0);
  std::int64_t& size = expected[static_cast<std::size_t>(axis)];
  if (block < 1) return context.Invalid(fmt::format("block_size is {}", block));
  size = size / block + (size % block == 0 ? 0 : 1);
  if (context.dims(1) != expected) {
    return context.Invalid(fmt::format("scale {} does not fit blocks of {} along axis {} of {}",
                                       ToString(context.dims(1)), block, axis,
                                       ToString(context.dims(0))));
  }
  for (std::size_t i = 0; i < context.input_count(); ++i) {
    if (!context.has_input(i) || context.constant(i) != nullptr) continue;
    return context.Unimplemented("block_size: scales per block are supported on constants only");
  }
  context.SetAttribute("axis", axis);
  return {};
}

/// The scale must be one number, one per element along axis `axis`, or one per block; the zero
/// point, if any, must have the same shape.
Status CheckScale(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckScaleType(context));
  const Dims scale = context.dims(1);
  const bool one = ElementCount(scale) == 1;
  if (context.has_input(2) && context.dims(2) != scale &&
      !(one && ElementCount(context.dims(2)) == 1)) {
    return context.Invalid(fmt::format("scale {} and zero point {} differ in shape",
                                       ToString(scale), ToString(context.dims(2))));
  }
  context.EraseAttribute("saturate");
  context.EraseAttribute("precision");
  const std::int64_t block = context.node().Int("block_size", 0);
  if (block != 0) return CheckBlocks(context, block);
  context.EraseAttribute("block_size");
  if (one) {
    context.SetAttribute("axis", std::int64_t{-1});  // no axis
    return {};
  }
  LAGOON_ASSIGN_OR_RETURN(const std::int64_t axis,
                          context.Axis(context.node().Int("axis", 1), context.rank(0)));
  if (scale != Dims{context.dims(0)[static_cast<std::size_t>(axis)]}) {
    return context.Invalid(fmt::format("scale {} does not fit axis {} of {}", ToString(scale), axis,
                                       ToString(context.dims(0))));
  }
  context.SetAttribute("axis", axis);
  return {};
}

/// The type in output_dtype; `otherwise` if the attribute is left out or 0.
Result<DataType> OutputType(OpContext& context, DataType otherwise) {
  if (context.node().Int("output_dtype", 0) == 0) context.EraseAttribute("output_dtype");
  Result<DataType> type = context.TypeAttribute("output_dtype", otherwise);
  context.EraseAttribute("output_dtype");
  return type;
}

Status InferQuantizeLinear(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(context.Float32(0));
  LAGOON_RETURN_IF_ERROR(context.Float32(1));
  LAGOON_RETURN_IF_ERROR(CheckScale(context));
  LAGOON_ASSIGN_OR_RETURN(DataType type, OutputType(context, DataType::kUInt8));
  if (context.has_input(2)) {
    type = context.input(2).type;
    const Constant* const zero = context.constant(2);
    if (zero != nullptr && zero->narrow != 0) {
      return context.Unimplemented(
          fmt::format("quantises to ONNX element type {}, which is supported as storage of "
                      "weights only",
                      zero->narrow));
    }
  }
  switch (type) {
    case DataType::kInt8:
    case DataType::kUInt8:
    case DataType::kInt16:
    case DataType::kUInt16:
      break;
    default:
      return context.Unimplemented(
          fmt::format("quantises to {}, supported are integers of 8 and "
                      "16 bits",
                      OipName(type)));
  }
  context.SetOutput(0, type, context.dims(0));
  return {};
}

/// Integers of 8 and 16 bits at run time. Constants may also be INT32 or 8-bit floats, which
/// Lagoon keeps as FP16.
Status CheckQuantizedType(const OpContext& context) {
  const DataType type = context.input(0).type;
  const Constant* const x = context.constant(0);
  switch (type) {
    case DataType::kInt8:
    case DataType::kUInt8:
    case DataType::kInt16:
    case DataType::kUInt16:
      return {};
    case DataType::kInt32:
      if (x != nullptr) return {};
      break;
    case DataType::kFloat16:
      if (x != nullptr && x->narrow != 0) return {};
      break;
    default:
      break;
  }
  return context.Unimplemented(
      fmt::format("input {} is {}, supported are integers of 8 and 16 "
                  "bits, and INT32 constants",
                  Quoted(context.input(0).name), OipName(type)));
}

Status InferDequantizeLinear(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckScale(context));
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {2}));
  LAGOON_RETURN_IF_ERROR(CheckQuantizedType(context));
  LAGOON_ASSIGN_OR_RETURN(const DataType type, OutputType(context, context.input(1).type));
  if (type == DataType::kFloat64) return context.Unimplemented("gives FP64");
  context.SetOutput(0, type, context.dims(0));
  return {};
}

/// The number of elements of input `i` must be `count`.
Status CheckCount(const OpContext& context, std::size_t i, std::int64_t count) {
  if (!context.has_input(i) || ElementCount(context.dims(i)) == count) return {};
  return context.Invalid(fmt::format("input {} has shape {}, expected are {} elements",
                                     Quoted(context.input(i).name), ToString(context.dims(i)),
                                     count));
}

/// Input 3 of DecodeBlocks, if any: for each row the block with its scale and zero point. There may
/// be numbers for the rows that fill the last block.
Status CheckBlockOfRow(const OpContext& context, std::int64_t rows, std::int64_t block) {
  if (!context.has_input(3)) return {};
  const std::int64_t blocks = (rows + block - 1) / block;
  LAGOON_ASSIGN_OR_RETURN(const std::vector<std::int64_t> indices,
                          context.ConstantInts(3, "g_idx"));
  const auto count = static_cast<std::int64_t>(indices.size());
  if (count != rows && count != blocks * block) {
    return context.Invalid(fmt::format("g_idx has {} numbers for {} rows", count, rows));
  }
  for (const std::int64_t index : indices) {
    if (index >= 0 && index < blocks) continue;
    return context.Invalid(
        fmt::format("g_idx has {}, it must be 0 to {}, the last block", index, blocks - 1));
  }
  return {};
}

/// Weights [K,N] in blocks of 2, 4 or 8 bits each along K: the inputs `first` (packed
/// [N,blocks,bytes]), the scales and perhaps the zero points behind it.
Status CheckBlockWeights(const OpContext& context, std::size_t first) {
  const std::int64_t rows = context.node().Int("K", 0), columns = context.node().Int("N", 0);
  const std::int64_t block = context.node().Int("block_size", 0);
  const std::int64_t bits = context.node().Int("bits", 4);
  constexpr std::int64_t kMost = 1 << 24;
  if (rows < 1 || columns < 1 || rows > kMost || columns > kMost) {
    return context.Invalid(
        fmt::format("K is {}, N is {}; each must be 1 to {}", rows, columns, kMost));
  }
  if ((bits != 2 && bits != 4 && bits != 8) || block < 16 || block > kMost || block % 16 != 0) {
    return context.Invalid(
        fmt::format("bits is {}, block_size is {}; bits must be 2, 4 or 8, and block_size a "
                    "multiple of 16 from 16 to {}",
                    bits, block, kMost));
  }
  const std::int64_t blocks = (rows + block - 1) / block;
  const std::size_t scales = first + 1, zeros = first + 2;
  if (const Value& levels = context.input(first); levels.type != DataType::kUInt8) {
    return context.Invalid(
        fmt::format("B {} is {}, it must be UINT8", Quoted(levels.name), OipName(levels.type)));
  }
  if (const Value& scale = context.input(scales); !IsFloat(scale.type)) {
    return context.Invalid(
        fmt::format("scale {} is {}, it must be a float", Quoted(scale.name), OipName(scale.type)));
  }
  LAGOON_RETURN_IF_ERROR(CheckCount(context, first, columns * blocks * (block * bits / 8)));
  LAGOON_RETURN_IF_ERROR(CheckCount(context, scales, columns * blocks));
  if (!context.has_input(zeros)) return {};
  const bool packed = context.input(zeros).type == DataType::kUInt8;
  if (!packed && context.input(zeros).type != context.input(scales).type) {
    return context.Invalid(
        fmt::format("the zero points {} are {}, they must be UINT8 or {}, as the scales",
                    Quoted(context.input(zeros).name), OipName(context.input(zeros).type),
                    OipName(context.input(scales).type)));
  }
  return CheckCount(context, zeros, columns * (packed ? (blocks * bits + 7) / 8 : blocks));
}

/// An op of Lagoon's own: weights [K,N] as floats. Inputs: those of CheckBlockWeights(), [block of
/// each row].
Status InferDecodeBlocks(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckBlockWeights(context, 0));
  const std::int64_t rows = context.node().Int("K", 0);
  LAGOON_RETURN_IF_ERROR(CheckBlockOfRow(context, rows, context.node().Int("block_size", 0)));
  context.SetOutput(0, DataType::kFloat32, {rows, context.node().Int("N", 0)});
  return {};
}

/// The op of com.microsoft without g_idx (graph.h).
Status InferMatMulNBits(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(CheckBlockWeights(context, 1));
  for (std::size_t i = 1; i < context.input_count(); ++i) {
    if (!context.has_input(i) || i == 4 || context.constant(i) != nullptr) continue;
    context.Misses(i);
    return context.Unimplemented(
        fmt::format("input {} {} must be constant, it is computed at run time", i,
                    Quoted(context.input(i).name)));
  }
  const std::int64_t rows = context.node().Int("K", 0), columns = context.node().Int("N", 0);
  Dims dims = context.dims(0);
  if (dims.empty() || dims.back() != rows) {
    return context.Invalid(fmt::format("K is {}, and input {} has shape {}", rows,
                                       Quoted(context.input(0).name), ToString(context.dims(0))));
  }
  dims.back() = columns;
  if (context.has_input(4) && context.dims(4) != Dims{columns}) {
    return context.Invalid(
        fmt::format("the bias has shape {}, N is {}", ToString(context.dims(4)), columns));
  }
  LAGOON_RETURN_IF_ERROR(context.SameType(0, {4}));
  context.SetAttribute("bits", context.node().Int("bits", 4));
  context.SetOutput(std::move(dims));
  return {};
}

Status InferDynamicQuantizeLinear(OpContext& context) {
  LAGOON_RETURN_IF_ERROR(context.Float32(0));
  context.SetOutput(0, DataType::kUInt8, context.dims(0));
  context.SetOutput(1, DataType::kFloat32, {});
  context.SetOutput(2, DataType::kUInt8, {});
  return {};
}

constexpr std::string_view kQuantizeAttributes =
    "i:axis i:block_size i:output_dtype i:precision i:saturate";

constexpr OpSpec kQuantizeOps[] = {
    {"QuantizeLinear", 10, 2, 3, 1, kQuantizeAttributes, InferQuantizeLinear, EvaluateQuantize},
    {"DequantizeLinear", 10, 2, 3, 1, "i:axis i:block_size i:output_dtype", InferDequantizeLinear,
     EvaluateDequantize},
    {"DecodeBlocks", 1, 2, 4, 1, "i:K i:N i:bits i:block_size", InferDecodeBlocks,
     EvaluateDecodeBlocks, RunTime::kNever},
    {"MatMulNBits", 1, 3, 5, 1, "i:K i:N i:accuracy_level i:bits i:block_size i:half_scales",
     InferMatMulNBits},
    {"DynamicQuantizeLinear", 11, 1, 1, 3, "", InferDynamicQuantizeLinear},
};

}  // namespace

std::span<const OpSpec> QuantizeOps() { return kQuantizeOps; }

}  // namespace lagoon
