#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "kernels/checks.h"
#include "kernels/cuda/make/make.h"

namespace lagoon::cuda {
namespace {

AttentionOperand OperandOf(const AttentionView& view) {
  return {static_cast<i64>(view.batch), static_cast<i64>(view.head), static_cast<i64>(view.row),
          static_cast<i64>(view.column)};
}

Cell CellOf(CellKind kind) {
  switch (kind) {
    case CellKind::kLstm:
      return Cell::kLstm;
    case CellKind::kRnn:
      return Cell::kRnn;
    case CellKind::kGruGates:
      return Cell::kGruGates;
    case CellKind::kGruState:
      return Cell::kGruState;
    case CellKind::kGruLinear:
      break;
  }
  return Cell::kGruLinear;
}

/// Number of gates in x, which is also that of the recurrent weights.
u32 GatesOf(CellKind kind) {
  if (kind == CellKind::kLstm) return 4;
  return kind == CellKind::kRnn ? 1 : 3;
}

}  // namespace

Result<CudaKernel> MakeCudaAttention(const AttentionSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeAttention(spec));
  if (std::max(spec.depth, spec.value_depth) > kMaxAttentionDepth) {
    return Unimplemented("attention",
                         fmt::format("of depth {} and value_depth {}, more than {},", spec.depth,
                                     spec.value_depth, kMaxAttentionDepth));
  }
  AttentionArgs args{};
  args.q_view = OperandOf(spec.q);
  args.k_view = OperandOf(spec.k);
  args.v_view = OperandOf(spec.v);
  args.y_view = OperandOf(spec.y);
  args.mask_view = OperandOf(spec.mask_view);
  args.keep_view = OperandOf(spec.keep_view);
  args.heads = U32(spec.heads);
  args.rows = U32(spec.rows);
  args.keys = U32(spec.keys);
  args.depth = U32(spec.depth);
  args.value_depth = U32(spec.value_depth);
  args.sharing = U32(spec.sharing);
  args.mask_batches = U32(spec.mask_batches == 0 ? spec.batch : spec.mask_batches);
  args.row_tiles = TilesOf(spec.rows, kAttentionRows);
  args.pitch = AttentionPitch(U32(std::max(spec.depth, spec.value_depth)));
  args.kept = spec.kept ? 1 : 0;
  args.scale = spec.scale;
  args.fill = spec.fill;
  args.floor = spec.floor;
  CudaKernel kernel = KernelLike(cpu, "attention", BodyId::kAttention,
                                 U32(spec.batch * spec.heads) * args.row_tiles, args);
  kernel.shared_bytes = AttentionSharedBytes(args.pitch);
  kernel.inputs = {offsetof(AttentionArgs, q), offsetof(AttentionArgs, k),
                   offsetof(AttentionArgs, v)};
  if (spec.mask) kernel.inputs.push_back(offsetof(AttentionArgs, mask));
  if (spec.keep) kernel.inputs.push_back(offsetof(AttentionArgs, keep));
  kernel.outputs = {offsetof(AttentionArgs, y)};
  return kernel;
}

Result<CudaKernel> MakeCudaCell(const CellSpec& spec) {
  if (spec.gate.function != CellFunction::kSigmoid ||
      spec.candidate.function != CellFunction::kTanh ||
      spec.output.function != CellFunction::kTanh || spec.clip > 0 || spec.coupled ||
      spec.lengths) {
    return Fail(ErrorCode::kUnimplemented,
                "cell: GPUs have the default activations only, without clip, input_forget and "
                "sequence_lens");
  }
  LAGOON_ASSIGN_OR_RETURN(const Kernel cpu, MakeCell(spec));
  CellArgs args{};
  args.kind = static_cast<u32>(CellOf(spec.kind));
  args.batch = U32(spec.batch);
  args.hidden = U32(spec.hidden);
  args.gates = GatesOf(spec.kind);
  CudaKernel kernel =
      KernelLike(cpu, "cell", BodyId::kCell, args.batch * TilesOf(spec.hidden, kCellUnits), args);
  kernel.inputs = {offsetof(CellArgs, x), offsetof(CellArgs, r), offsetof(CellArgs, h)};
  for (std::size_t i = 0; kernel.inputs.size() < cpu.inputs.size(); ++i) {
    kernel.inputs.push_back(U32(offsetof(CellArgs, extra) + i * sizeof(float*)));
  }
  for (std::size_t i = 0; i < cpu.outputs.size(); ++i) {
    kernel.outputs.push_back(U32(offsetof(CellArgs, out) + i * sizeof(float*)));
  }
  return kernel;
}

}  // namespace lagoon::cuda
