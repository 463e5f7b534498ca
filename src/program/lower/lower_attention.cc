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

/// The view of an operand of these dims that broadcasts to the scores.
AttentionView MaskView(const Dims& dims, const AttentionSpec& spec) {
  const auto size = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  const Dims scores{size(spec.batch), size(spec.heads), size(spec.rows), size(spec.keys)};
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
  spec.scale = node.Float("scale", 1);
  spec.kept = node.Int("kept", 1) != 0;
  spec.fill = node.Float("fill", 0);
  spec.floor = node.Float("floor", spec.floor);
  if (node.inputs[3] != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor mask, builder.Use(node.inputs[3], Layout::kPlain));
    spec.mask = true;
    spec.mask_view = MaskView(node.Ints("mask_dims", {}), spec);
    operands.push_back(builder.All(mask));
  }
  if (node.inputs[4] != kNoValue) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor keep, builder.Use(node.inputs[4], Layout::kPlain));
    spec.keep = true;
    spec.keep_view = MaskView(node.Ints("keep_dims", {}), spec);
    operands.push_back(builder.All(keep));
  }
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name, [&](auto& make) { return make.Attention(spec); },
                      std::move(operands), {builder.All(y)});
}

constexpr Lowering kAttentionLowerings[] = {
    {"Attention", LowerAttention},
};

}  // namespace

std::span<const Lowering> AttentionLowerings() { return kAttentionLowerings; }

}  // namespace lagoon
