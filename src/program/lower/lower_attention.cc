// Attention nodes, which fusion makes from the ops that exporters write.

#include <fmt/format.h>

#include <array>

#include "kernels/sequence/attention.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

/// Sizes and strides of batch, head, row and column.
struct Heads {
  std::array<std::size_t, 4> dims{}, strides{};

  AttentionView view() const { return {strides[0], strides[1], strides[2], strides[3]}; }
};

Result<Heads> HeadsOf(const Dims& dims, const std::vector<std::int64_t>& order) {
  constexpr std::size_t kRank = 4;
  if (dims.size() != kRank || order.size() != kRank) {
    return Fail(ErrorCode::kInternal, fmt::format("attention of {} in the order of {} axes",
                                                  ToString(dims), order.size()));
  }
  std::array<std::size_t, kRank> strides{};
  std::size_t stride = 1;
  for (std::size_t axis = kRank; axis-- > 0;) {
    strides[axis] = stride;
    stride *= static_cast<std::size_t>(dims[axis]);
  }
  Heads heads;
  for (std::size_t i = 0; i < kRank; ++i) {
    const auto axis = static_cast<std::size_t>(order[i]);
    heads.dims[i] = static_cast<std::size_t>(dims[axis]);
    heads.strides[i] = strides[axis];
  }
  return heads;
}

/// The view of an operand of these dims that broadcasts to the scores of so many of the batch.
AttentionView MaskView(const Dims& dims, std::size_t batch, const AttentionSpec& spec) {
  const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  const Dims scores{size(batch), size(spec.heads), size(spec.rows), size(spec.keys)};
  const std::vector<std::int64_t> strides = BroadcastView(dims, scores, 1).strides;
  const auto at = [&](std::size_t axis) { return static_cast<std::size_t>(strides[axis]); };
  return {at(0), at(1), at(2), at(3)};
}

Status LowerAttention(ProgramBuilder& builder, const Node& node) {
  std::vector<Operand> operands;
  std::array<Heads, 3> heads;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name(1, "qkv"[i]);
    LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[i], Layout::kPlain));
    LAGOON_ASSIGN_OR_RETURN(heads[i],
                            HeadsOf(node.Ints(name + "_dims", {}), node.Ints(name + "_order", {})));
    operands.push_back(builder.All(x));
  }
  const auto& [q, k, v] = heads;
  const Tensor y = builder.NewTensor(node.name, builder.dims(node.outputs[0]), Layout::kPlain);
  LAGOON_ASSIGN_OR_RETURN(const Heads out,
                          HeadsOf(node.Ints("y_dims", {}), node.Ints("y_order", {})));
  AttentionSpec spec;
  spec.batch = q.dims[0];
  spec.heads = q.dims[1];
  spec.rows = q.dims[2];
  spec.depth = q.dims[3];
  spec.keys = k.dims[2];
  spec.value_depth = v.dims[3];
  spec.q = q.view();
  spec.k = k.view();
  spec.v = v.view();
  spec.y = out.view();
  spec.sharing = static_cast<std::size_t>(node.Int("sharing", 1));
  spec.scale = node.Float("scale", 1);
  spec.kept = node.Int("kept", 1) != 0;
  spec.fill = node.Float("fill", 0);
  spec.floor = node.Float("floor", spec.floor);
  if (node.inputs[3] != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor mask, builder.Use(node.inputs[3], Layout::kPlain));
    spec.mask = true;
    const Dims dims = node.Ints("mask_dims", {});
    spec.mask_batches = static_cast<std::size_t>(dims[0]);
    spec.mask_view = MaskView(dims, spec.mask_batches, spec);
    operands.push_back(builder.All(mask));
  }
  if (node.inputs[4] != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor keep, builder.Use(node.inputs[4], Layout::kPlain));
    spec.keep = true;
    spec.keep_view = MaskView(node.Ints("keep_dims", {}), spec.batch, spec);
    operands.push_back(builder.All(keep));
  }
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name, [&](auto& make) { return make.Attention(spec); },
                      std::move(operands), {builder.All(y)});
}

/// The cache behind the node: in the place of the old one, which `in_place` says, or new.
Tensor CacheOf(ProgramBuilder& builder, const Node& node, std::size_t i, bool in_place) {
  const ValueId made = node.outputs[i - 1];
  if (in_place) return builder.Replace(node.inputs[i], made);
  Tensor cache = builder.NewTensor(node.name, builder.dims(node.inputs[i]), Layout::kPlain);
  if (made != kNoValue) builder.Define(made, cache);
  return cache;
}

Status LowerRotateAppend(ProgramBuilder& builder, const Node& node) {
  constexpr std::size_t kKeys = 2, kValues = 3, kCos = 4;
  const Dims& x = builder.dims(node.inputs[0]);
  const Dims& cache = builder.dims(node.inputs[kKeys]);
  RotateAppendSpec spec;
  spec.batch = static_cast<std::size_t>(x[0]);
  spec.rows = static_cast<std::size_t>(x[1]);
  spec.heads = static_cast<std::size_t>(node.Int("heads", 1));
  spec.key_heads = static_cast<std::size_t>(cache[1]);
  spec.room = static_cast<std::size_t>(cache[2]);
  spec.depth = static_cast<std::size_t>(cache[3]);
  spec.interleaved = node.Int("interleaved", 0) != 0;
  std::vector<Operand> operands;
  const auto use = [&](ValueId input) -> Status {
    LAGOON_ASSIGN_OR_RETURN(const Tensor tensor, builder.Use(input, Layout::kPlain));
    operands.push_back(builder.All(tensor));
    return {};
  };
  LAGOON_RETURN_IF_ERROR(use(node.inputs[0]));
  LAGOON_ASSIGN_OR_RETURN(const Tensor at, builder.Use(node.inputs[1], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor wide,
                          EmitCast(builder, node.name + ".positions", at, DataType::kInt64));
  operands.push_back(builder.All(wide));
  if (node.inputs.size() > kCos && node.inputs[kCos] != kNoValue) {
    const Dims& angles = builder.dims(node.inputs[kCos]);
    spec.positions = static_cast<std::size_t>(angles[0]);
    spec.pairs = static_cast<std::size_t>(angles[1]);
    LAGOON_RETURN_IF_ERROR(use(node.inputs[kCos]));
    LAGOON_RETURN_IF_ERROR(use(node.inputs[kCos + 1]));
  }
  // A kernel that reads constants only runs when the model is loaded.
  spec.in_place = !builder.AllConstant(operands) &&
                  builder.MayReplace(node.inputs[kKeys], node.outputs[1]) &&
                  builder.MayReplace(node.inputs[kValues], node.outputs[2]);
  if (!spec.in_place) {
    LAGOON_RETURN_IF_ERROR(use(node.inputs[kKeys]));
    LAGOON_RETURN_IF_ERROR(use(node.inputs[kValues]));
  }
  const Tensor q = builder.NewTensor(node.name, builder.dims(node.outputs[0]), Layout::kPlain);
  builder.Define(node.outputs[0], q);
  const Tensor keys = CacheOf(builder, node, kKeys, spec.in_place);
  const Tensor values = CacheOf(builder, node, kValues, spec.in_place);
  return builder.Emit(node.name, [&](auto& make) { return make.RotateAppend(spec); },
                      std::move(operands),
                      {builder.All(q), builder.All(keys), builder.All(values)});
}

constexpr Lowering kAttentionLowerings[] = {
    {"Attention", LowerAttention},
    {"RotateAppend", LowerRotateAppend, Lowering::kFloat},
};

}  // namespace

std::span<const Lowering> AttentionLowerings() { return kAttentionLowerings; }

}  // namespace lagoon
