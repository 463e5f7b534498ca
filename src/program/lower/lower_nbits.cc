// Products with constant weights of 2, 4 or 8 bits in blocks.

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "kernels/nbits/nbits.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

constexpr std::size_t kNbitsLevels = 1, kNbitsScales = 2, kNbitsZeros = 3, kNbitsBias = 4;

ValueId InputOf(const Node& node, std::size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : kNoValue;
}

/// The weights of a node: levels, scales and perhaps zero points.
std::vector<Constant> WeightsOf(const ProgramBuilder& builder, const Node& node) {
  std::vector<Constant> weights;
  for (const std::size_t i : {kNbitsLevels, kNbitsScales, kNbitsZeros}) {
    const ValueId input = InputOf(node, i);
    if (input != kNoValue) weights.push_back(*builder.constant(input));
  }
  return weights;
}

NbitsWeights ReadWeights(std::span<const Constant> weights) {
  NbitsWeights from{*weights[0].bytes, weights[1].floats(), {}};
  if (weights.size() > 2) from.zeros = *weights[2].bytes;
  return from;
}

/// As for any MatMul, with weights of fp32: for devices without such a kernel.
Status LowerDecoded(ProgramBuilder& builder, const Node& node, const NbitsSpec& spec,
                    const std::string& key) {
  const Dims dims{static_cast<std::int64_t>(spec.depth), static_cast<std::int64_t>(spec.columns)};
  const auto decode = [spec](std::span<const Constant> from) {
    ConstantData::Bytes bytes(spec.depth * spec.columns * sizeof(float));
    DecodeNbits(spec, ReadWeights(from), reinterpret_cast<float*>(bytes.data()));
    return bytes;
  };
  const ValueId decoded = builder.AddValue(
      node.name + ".decoded",
      DerivedConstant(DataType::kFloat32, dims, "decode " + key, WeightsOf(builder, node), decode),
      "decode " + key);
  Node product{node.name, "MatMul", {node.inputs[0], decoded}, node.outputs, {}, {}};
  product.packed = true;
  if (spec.bias) product.inputs.push_back(node.inputs[kNbitsBias]);
  return LowerPackedMatMul(builder, product);
}

/// x as the kernel takes it.
Result<Tensor> FormOf(ProgramBuilder& builder, const Node& node, const NbitsSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  if (!NeedsNbitsX(spec)) return x;
  const Tensor form =
      builder.NewTensor(node.name + ".x", {static_cast<std::int64_t>(NbitsXBytes(spec))},
                        Layout::kPlain, DataType::kUInt8);
  LAGOON_RETURN_IF_ERROR(builder.Emit(node.name + ".x",
                                      [&](auto& make) { return make.NbitsX(spec); },
                                      {builder.All(x)}, {builder.All(form)}));
  return form;
}

Status LowerMatMulNBits(ProgramBuilder& builder, const Node& node) {
  constexpr std::int64_t kBytes = 4;  // of accuracy_level
  NbitsSpec spec;
  spec.depth = static_cast<std::size_t>(node.Int("K", 0));
  spec.columns = static_cast<std::size_t>(node.Int("N", 0));
  spec.rows = static_cast<std::size_t>(ElementCount(builder.dims(node.inputs[0]))) / spec.depth;
  spec.bits = static_cast<std::size_t>(node.Int("bits", 0));
  spec.block = static_cast<std::size_t>(node.Int("block_size", 0));
  spec.bytes = node.Int("accuracy_level", 0) == kBytes;
  spec.half_scales = node.Int("half_scales", 0) != 0;
  spec.zeros = InputOf(node, kNbitsZeros) != kNoValue;
  spec.bias = InputOf(node, kNbitsBias) != kNoValue;
  std::string key = fmt::format("{} bits {}", spec.bits, spec.block);
  for (const std::size_t i : {kNbitsLevels, kNbitsScales, kNbitsZeros}) {
    if (InputOf(node, i) != kNoValue) key += " " + builder.KeyOf(node.inputs[i]);
  }
  if (!builder.options().on_cpu()) return LowerDecoded(builder, node, spec, key);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, FormOf(builder, node, spec));
  const auto pack = [spec, weights = WeightsOf(builder, node)](std::byte* to) {
    PackNbits(spec, ReadWeights(weights), to);
    for (const Constant& constant : weights) constant.bytes.Release();
  };
  const BufferId weights = builder.AddConstant(node.name + ".weights", PackedNbitsBytes(spec), pack,
                                               fmt::format("nbits {} {}", spec.half_scales, key));
  std::vector<Operand> inputs{builder.All(x), builder.All(weights)};
  if (spec.bias) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor bias,
                            builder.Use(node.inputs[kNbitsBias], Layout::kPlain));
    inputs.push_back(builder.All(bias));
  }
  const Tensor y = builder.NewTensor(node.name, builder.dims(node.outputs[0]), Layout::kPlain);
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name, [&](auto& make) { return make.Nbits(spec); }, std::move(inputs),
                      {builder.All(y)});
}

constexpr Lowering kNbitsLowerings[] = {
    {"MatMulNBits", LowerMatMulNBits, Lowering::kFloat},
};

}  // namespace

std::span<const Lowering> NbitsLowerings() { return kNbitsLowerings; }

}  // namespace lagoon
