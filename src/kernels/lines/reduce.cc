#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/lines/reduce.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <limits>

#include "kernels/lines/reduce.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_REDUCE_ARGS_
#define LAGOON_KERNELS_REDUCE_ARGS_
namespace lagoon {
namespace {

/// A line is what one vector accumulates: a row if inner is 1, otherwise one vector of neighbouring
/// columns.
struct ReduceArgs {
  const float* x = nullptr;
  float* y = nullptr;
  std::size_t axis = 1, inner = 1;
  std::size_t lines = 1, lines_per_outer = 1;
  std::size_t blocks = 1;  // shares of the lines
  float scale = 1;
};

struct ReduceBodies {
  Body rows = nullptr, columns = nullptr;
  std::size_t lanes = 0;
};

/// Vectors of a line between two guard checks, and between two additions to its total: sums of sums
/// keep the rounding error small. A vector of a strided column takes up to 10 ns from memory.
constexpr std::size_t kReduceVectorsPerCheck = 1024;

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

using simd::D;
using simd::V;
namespace hn = hwy::HWY_NAMESPACE;

struct Sum {
  static constexpr float kStart = 0;
  static HWY_INLINE V Of(V a, V b) { return hn::Add(a, b); }
  static HWY_INLINE V Lanes(V v) { return hn::SumOfLanes(D(), v); }
};
struct Max {
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  static HWY_INLINE V Of(V a, V b) { return simd::MaxOrNan(a, b); }
  static HWY_INLINE V Lanes(V v) { return simd::MaxOfLanesOrNan(v); }
};
struct Min {
  static constexpr float kStart = std::numeric_limits<float>::infinity();
  static HWY_INLINE V Of(V a, V b) { return simd::MinOrNan(a, b); }
  static HWY_INLINE V Lanes(V v) { return simd::MinOfLanesOrNan(v); }
};

/// Folds `count` vectors that lie `step` elements apart, four at a time to hide the latency of one.
template <class Fold, class Io>
HWY_INLINE V FoldVectors(const Io& io, const float* x, size_t step, size_t count) {
  V acc[4];
  for (V& v : acc) v = hn::Set(D(), Fold::kStart);
  size_t i = 0;
  for (; i + 4 <= count; i += 4, x += 4 * step) {
    acc[0] = Fold::Of(acc[0], io.Load(x));
    acc[1] = Fold::Of(acc[1], io.Load(x + step));
    acc[2] = Fold::Of(acc[2], io.Load(x + 2 * step));
    acc[3] = Fold::Of(acc[3], io.Load(x + 3 * step));
  }
  for (; i < count; ++i, x += step) acc[0] = Fold::Of(acc[0], io.Load(x));
  return Fold::Of(Fold::Of(acc[0], acc[1]), Fold::Of(acc[2], acc[3]));
}

/// Folds a whole line. If `ctx` is not null, checks the guards between pieces; null is for short
/// lines.
template <class Fold, class Io>
HWY_INLINE bool FoldLine(const Io& io, const float* x, size_t step, size_t count, BlockContext* ctx,
                         V& total) {
  total = hn::Set(D(), Fold::kStart);
  for (size_t i = 0; i < count; i += kReduceVectorsPerCheck) {
    if (ctx != nullptr && ctx->ShouldLeave()) return false;
    const size_t piece = std::min(count - i, kReduceVectorsPerCheck);
    total = Fold::Of(total, FoldVectors<Fold>(io, x + i * step, step, piece));
  }
  return true;
}

template <class Fold>
HWY_INLINE bool ReduceRow(const ReduceArgs& args, size_t row, BlockContext* ctx) {
  const size_t lanes = simd::Lanes();
  const float* x = args.x + row * args.axis;
  V total;
  if (!FoldLine<Fold>(simd::Whole(), x, lanes, args.axis / lanes, ctx, total)) return false;
  const size_t rest = args.axis % lanes;
  if (rest != 0) {
    const V last = simd::Part(rest).Load(x + args.axis - rest);
    const V start = hn::Set(D(), Fold::kStart);
    total = Fold::Of(total, hn::IfThenElse(hn::FirstN(D(), rest), last, start));
  }
  args.y[row] = hn::GetLane(Fold::Lanes(total)) * args.scale;
  return true;
}

template <class Fold>
HWY_INLINE bool ReduceColumns(const ReduceArgs& args, size_t line, BlockContext* ctx) {
  const size_t lanes = simd::Lanes();
  const size_t outer = line / args.lines_per_outer;
  const size_t column = line % args.lines_per_outer * lanes;
  const size_t count = std::min(lanes, args.inner - column);
  const float* x = args.x + outer * args.axis * args.inner + column;
  float* y = args.y + outer * args.inner + column;
  const V scale = hn::Set(D(), args.scale);
  V total;
  if (count == lanes) {
    if (!FoldLine<Fold>(simd::Whole(), x, args.inner, args.axis, ctx, total)) return false;
    simd::Whole::Store(hn::Mul(total, scale), y);
    return true;
  }
  const simd::Part part(count);
  if (!FoldLine<Fold>(part, x, args.inner, args.axis, ctx, total)) return false;
  part.Store(hn::Mul(total, scale), y);
  return true;
}

template <class Fold, bool kRows>
bool ReduceBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const ReduceArgs*>(raw);
  const Range lines = Share(args.lines, args.blocks, block);
  // Several lines together are short. The first one of them is a visible write, after which the
  // block must not leave.
  BlockContext* checks = lines.size() == 1 ? &ctx : nullptr;
  for (size_t line = lines.begin; line < lines.end; ++line) {
    const bool kept =
        kRows ? ReduceRow<Fold>(args, line, checks) : ReduceColumns<Fold>(args, line, checks);
    if (!kept) return false;
  }
  return true;
}

}  // namespace

ReduceBodies PickReduceBodies(ReduceOp op) {
  const size_t lanes = simd::Lanes();
  switch (op) {
    case ReduceOp::kMax:
      return {&ReduceBody<Max, true>, &ReduceBody<Max, false>, lanes};
    case ReduceOp::kMin:
      return {&ReduceBody<Min, true>, &ReduceBody<Min, false>, lanes};
    case ReduceOp::kSum:
    case ReduceOp::kMean:
      break;
  }
  return {&ReduceBody<Sum, true>, &ReduceBody<Sum, false>, lanes};
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "kernels/checks.h"
#include "kernels/cpu_level.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickReduceBodies);

constexpr char kName[] = "reduce";

// Measured on a Xeon at 2 GHz, one thread, 49x1280: 1.1 ns per vector of a column from the
// second-level cache, three times that from the third. Each such vector is a separate cache line,
// or half of one.
constexpr double kNsPerRowVector = 2;
constexpr double kNsPerColumnVector = 2.5;
constexpr double kNsPerLine = 10;

}  // namespace

Result<Kernel> MakeReduce(const ReduceSpec& spec) {
  LAGOON_ASSIGN_OR_RETURN(
      const std::size_t count,
      CheckElements(kName, "x",
                    {{"outer", spec.outer}, {"axis", spec.axis}, {"inner", spec.inner}}));
  const ReduceBodies bodies = LAGOON_DISPATCH(PickReduceBodies)(spec.op);
  const bool rows = spec.inner == 1;
  ReduceArgs args;
  args.axis = spec.axis;
  args.inner = spec.inner;
  args.lines_per_outer = CeilDivide(spec.inner, bodies.lanes);
  args.lines = spec.outer * args.lines_per_outer;
  const auto steps = static_cast<double>(rows ? CeilDivide(spec.axis, bodies.lanes) : spec.axis);
  const double line_ns = kNsPerLine + steps * (rows ? kNsPerRowVector : kNsPerColumnVector);
  args.blocks = BlocksFor(line_ns * static_cast<double>(args.lines), args.lines);
  if (spec.op == ReduceOp::kMean) args.scale = 1.0f / static_cast<float>(spec.axis);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = rows ? bodies.rows : bodies.columns;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ReduceArgs, x)};
  kernel.outputs = {offsetof(ReduceArgs, y)};
  kernel.flops = static_cast<double>(count);
  kernel.bytes_moved = sizeof(float) * static_cast<double>(count + spec.outer * spec.inner);
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
