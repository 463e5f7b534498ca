#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/binary.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <cmath>

#include "kernels/activation.h"
#include "kernels/elementwise/element_rows.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/simd/simd-inl.h"
#include "kernels/strided.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_BINARY_ARGS_
#define LAGOON_KERNELS_BINARY_ARGS_
namespace lagoon {
namespace {

/// The output is seen as rows of `inner` elements, each cut into `pieces`. A task is one piece of
/// one row.
struct BinaryArgs {
  const float* a = nullptr;
  const float* b = nullptr;
  float* y = nullptr;
  std::size_t inner = 1;
  std::size_t pieces = 1;
  std::size_t tasks = 1, blocks = 1;
  bool a_moves = true, b_moves = true;  // along a row; false: one element for the whole row
  OuterAxes<2> outer;                   // operand 0: a, 1: b
  Limits limits;
  Finish finish;  // applied to each piece after it is written
};

/// Pieces begin at multiples of this: a cache line, which is also the widest vector.
constexpr std::size_t kBinaryGrain = 16;

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

struct AddOf {
  static HWY_INLINE V Of(V a, V b) { return hn::Add(a, b); }
};
struct SubOf {
  static HWY_INLINE V Of(V a, V b) { return hn::Sub(a, b); }
};
struct MulOf {
  static HWY_INLINE V Of(V a, V b) { return hn::Mul(a, b); }
};
struct DivOf {
  static HWY_INLINE V Of(V a, V b) { return hn::Div(a, b); }
};
struct MinOf {
  static HWY_INLINE V Of(V a, V b) { return simd::MinOrNan(a, b); }
};
struct MaxOf {
  static HWY_INLINE V Of(V a, V b) { return simd::MaxOrNan(a, b); }
};
struct PowOf {
  /// Computes lane by lane: exponents in models are nearly always constants, for which the graph
  /// has other ops.
  static HWY_INLINE V Of(V a, V b) {
    HWY_ALIGN float base[hn::MaxLanes(D())], power[hn::MaxLanes(D())];
    hn::Store(a, D(), base);
    hn::Store(b, D(), power);
    for (size_t lane = 0; lane < simd::Lanes(); ++lane)
      base[lane] = std::pow(base[lane], power[lane]);
    return hn::Load(D(), base);
  }
};

/// Vectors of an operand that moves, or one element repeated.
template <bool kMoves>
struct Operand {
  const float* data;
  template <class Io>
  HWY_INLINE V Load(const Io& io, size_t i) const {
    if constexpr (kMoves) return io.Load(data + i);
    return hn::Set(D(), *data);
  }
};

template <class F, bool kA, bool kB>
HWY_INLINE void BinaryPiece(Operand<kA> a, Operand<kB> b, size_t count, Limits limits, float* y) {
  const V low = hn::Set(D(), limits.low), high = hn::Set(D(), limits.high);
  const size_t lanes = simd::Lanes();
  const simd::Whole whole;
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    whole.Store(simd::Clamp(F::Of(a.Load(whole, i), b.Load(whole, i)), low, high), y + i);
  }
  if (i < count) {
    const simd::Part part(count - i);
    part.Store(simd::Clamp(F::Of(a.Load(part, i), b.Load(part, i)), low, high), y + i);
  }
}

template <class F, bool kA, bool kB>
bool BinaryBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const BinaryArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  const size_t grains = CeilDivide(args.inner, kBinaryGrain);
  size_t row = tasks.begin / args.pieces, piece = tasks.begin % args.pieces;
  Walk<2> walk(args.outer, row);
  for (size_t task = tasks.begin; task < tasks.end; ++task) {
    const Range share = Share(grains, args.pieces, piece);
    const size_t begin = share.begin * kBinaryGrain;
    const size_t end = std::min(args.inner, share.end * kBinaryGrain);
    const Operand<kA> a{args.a + walk.offset(0) + (kA ? begin : 0)};
    const Operand<kB> b{args.b + walk.offset(1) + (kB ? begin : 0)};
    float* const y = args.y + row * args.inner + begin;
    BinaryPiece<F, kA, kB>(a, b, end - begin, args.limits, y);
    if (args.finish.row != nullptr) args.finish(y, nullptr, end - begin);
    if (++piece < args.pieces) continue;
    piece = 0;
    ++row;
    walk.Next();
  }
  return true;
}

template <class F>
Body PickMoves(bool a, bool b) {
  if (a && b) return &BinaryBody<F, true, true>;
  return a ? &BinaryBody<F, true, false> : &BinaryBody<F, false, true>;
}

}  // namespace

/// At least one operand must move.
Body PickBinaryBody(BinaryOp op, bool a_moves, bool b_moves) {
#define LAGOON_VECTOR_CASE(name, ...) \
  case BinaryOp::k##name:             \
    return PickMoves<name##Of>(a_moves, b_moves);
  switch (op) {
    LAGOON_VECTOR_BINARY_OPS(LAGOON_VECTOR_CASE)
    default:
      return nullptr;
  }
#undef LAGOON_VECTOR_CASE
}

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include "base/check.h"
#include "kernels/checks.h"
#include "kernels/cpu_level.h"
#include "plan/elementwise_ops.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickBinaryBody);

constexpr char kName[] = "binary";

constexpr double kNsPerRow = 6;

struct Axis {
  std::size_t size = 1;
  bool a_moves = false, b_moves = false;
};

/// The size of `axis` (counted in `out`) of a shape that numpy's rules pad with ones on the left.
std::int64_t SizeAt(const std::vector<std::int64_t>& shape, std::size_t axis, std::size_t rank) {
  const std::size_t missing = rank - shape.size();
  return axis < missing ? 1 : shape[axis - missing];
}

tl::unexpected<Error> NoBroadcast(const BinarySpec& spec) {
  return Invalid(kName, fmt::format("a {} and b {} do not broadcast to out {}", ShapeText(spec.a),
                                    ShapeText(spec.b), ShapeText(spec.out)));
}

/// The axes of `out` without those of size one, with neighbours joined that broadcast alike. Never
/// empty.
Result<std::vector<Axis>> JoinedAxes(const BinarySpec& spec) {
  const std::size_t rank = spec.out.size();
  if (spec.a.size() > rank || spec.b.size() > rank) return NoBroadcast(spec);
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::int64_t size = spec.out[i], a = SizeAt(spec.a, i, rank), b = SizeAt(spec.b, i, rank);
    if ((a != size && a != 1) || (b != size && b != 1) || (a != size && b != size)) {
      return NoBroadcast(spec);
    }
    if (size == 1) continue;
    const Axis axis{static_cast<std::size_t>(size), a == size, b == size};
    if (!axes.empty() && axes.back().a_moves == axis.a_moves &&
        axes.back().b_moves == axis.b_moves) {
      axes.back().size *= axis.size;
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.push_back({1, true, true});
  if (axes.size() > kMaxBroadcastAxes) {
    return Invalid(
        kName, fmt::format("a {} with b {} broadcasts along {} axes, the most is {}",
                           ShapeText(spec.a), ShapeText(spec.b), axes.size(), kMaxBroadcastAxes));
  }
  return axes;
}

BinaryArgs Layout(const std::vector<Axis>& axes) {
  BinaryArgs args;
  args.inner = axes.back().size;
  args.a_moves = axes.back().a_moves;
  args.b_moves = axes.back().b_moves;
  args.outer.rank = static_cast<std::uint32_t>(axes.size() - 1);
  std::size_t a_stride = args.a_moves ? args.inner : 1;
  std::size_t b_stride = args.b_moves ? args.inner : 1;
  for (std::size_t i = axes.size() - 1; i-- > 0;) {
    args.outer.dims[i] = axes[i].size;
    args.outer.strides[0][i] = axes[i].a_moves ? a_stride : 0;
    args.outer.strides[1][i] = axes[i].b_moves ? b_stride : 0;
    if (axes[i].a_moves) a_stride *= axes[i].size;
    if (axes[i].b_moves) b_stride *= axes[i].size;
  }
  return args;
}

void SetTiles(double ns_per_element, std::size_t rows, BinaryArgs& args) {
  const double row_ns = kNsPerRow + ns_per_element * static_cast<double>(args.inner);
  // A row longer than half a block is cut, so that blocks of whole pieces have similar sizes.
  args.pieces = std::min(CeilDivide(args.inner, kBinaryGrain),
                         static_cast<std::size_t>(std::ceil(row_ns / (kBlockNs / 8))));
  args.tasks = rows * args.pieces;
  args.blocks = BlocksFor(row_ns * static_cast<double>(rows), args.tasks);
}

}  // namespace

Result<Kernel> MakeBinary(const BinarySpec& spec) {
  const elementwise::BinaryRow& row = elementwise::RowOf(spec.op);
  if (spec.type != DataType::kFloat32 || !row.has_vector_body) return MakeBinaryRows(spec);
  LAGOON_ASSIGN_OR_RETURN(const std::size_t count, CheckElements(kName, "out", spec.out));
  LAGOON_ASSIGN_OR_RETURN(const std::size_t a_count, CheckElements(kName, "a", spec.a));
  LAGOON_ASSIGN_OR_RETURN(const std::size_t b_count, CheckElements(kName, "b", spec.b));
  LAGOON_ASSIGN_OR_RETURN(const std::vector<Axis> axes, JoinedAxes(spec));
  BinaryArgs args = Layout(axes);
  if (spec.epilogue.residual) return Invalid(kName, "epilogue.residual is not supported");
  LAGOON_ASSIGN_OR_RETURN(args.limits, LimitsOf(kName, spec.epilogue));
  LAGOON_ASSIGN_OR_RETURN(args.finish, FinishOf(kName, spec.epilogue));
  const double bytes = sizeof(float) * static_cast<double>(count + a_count + b_count);
  const double ns_per_element =
      (row.vector_ns > 0 ? row.vector_ns : MoveNs(bytes) / static_cast<double>(count)) +
      FinishNs(spec.epilogue);
  SetTiles(ns_per_element, count / args.inner, args);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = LAGOON_DISPATCH(PickBinaryBody)(spec.op, args.a_moves, args.b_moves);
  LAGOON_CHECK(kernel.body != nullptr);
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(BinaryArgs, a), offsetof(BinaryArgs, b)};
  kernel.outputs = {offsetof(BinaryArgs, y)};
  kernel.flops = static_cast<double>(count);
  kernel.bytes_moved = bytes;
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
