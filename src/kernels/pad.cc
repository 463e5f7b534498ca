#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pad.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "kernels/shape_ops.h"
#include "kernels/simd-inl.h"
#include "kernels/strided.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_PAD_ARGS_
#define LAGOON_KERNELS_PAD_ARGS_
namespace lagoon {
namespace {

/// The output as rows of `row` elements, each cut into pieces; a task is one piece of one row.
struct PadArgs {
  const float* x = nullptr;
  float* y = nullptr;
  OuterAxes<1> outer;  // of y; strides in x
  std::size_t before[kMaxOuterAxes] = {};
  std::size_t inside[kMaxOuterAxes] = {};  // size of x
  std::size_t row = 1, row_before = 0, row_inside = 1;
  std::size_t piece = 1, tasks = 1, blocks = 1;
  float value = 0;
};

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

/// Where x's row for the walk's position begins; null: the whole row is padding.
HWY_INLINE const float* SourceRow(const PadArgs& args, const Walk<1>& walk) {
  size_t shift = 0;
  for (size_t axis = 0; axis < args.outer.rank; ++axis) {
    // Below `before` this wraps to a huge index.
    if (walk.index(axis) - args.before[axis] >= args.inside[axis]) return nullptr;
    shift += args.before[axis] * args.outer.strides[0][axis];
  }
  return args.x + (walk.offset(0) - shift);
}

HWY_INLINE void PadPiece(const PadArgs& args, const float* source, Range piece, float* y) {
  const size_t begin = std::clamp(args.row_before, piece.begin, piece.end);
  const size_t end = std::clamp(args.row_before + args.row_inside, piece.begin, piece.end);
  if (source == nullptr || begin == end) {
    simd::Fill(args.value, piece.size(), y + piece.begin);
    return;
  }
  simd::Fill(args.value, begin - piece.begin, y + piece.begin);
  simd::Copy(source + (begin - args.row_before), end - begin, y + begin);
  simd::Fill(args.value, piece.end - end, y + end);
}

bool PadBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const PadArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  const size_t pieces = CeilDivide(args.row, args.piece);
  size_t row = tasks.begin / pieces, piece = tasks.begin % pieces;
  Walk<1> walk(args.outer, row);
  for (size_t task = tasks.begin; task < tasks.end; ++task) {
    const Range range{piece * args.piece, std::min(args.row, (piece + 1) * args.piece)};
    PadPiece(args, SourceRow(args, walk), range, args.y + row * args.row);
    if (++piece < pieces) continue;
    piece = 0;
    ++row;
    walk.Next();
  }
  return true;
}

}  // namespace

Body PickPadBody() { return &PadBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include <vector>

#include "kernels/checks.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickPadBody);

constexpr char kName[] = "pad";

// Measured on a Xeon at 2 GHz, one thread.
constexpr double kNsPerTask = 12;
constexpr std::size_t kPiece = 4096;

struct Axis {
  std::size_t inside = 1, before = 0, after = 0;
  std::size_t size() const { return before + inside + after; }
};

Status Check(std::span<const std::int64_t> dims, std::span<const std::int64_t> before,
             std::span<const std::int64_t> after) {
  if (dims.empty() || dims.size() > kMaxShapeRank || before.size() != dims.size() ||
      after.size() != dims.size()) {
    return Invalid(
        kName, fmt::format("x {} with before {} and after {}: ranks must be equal, 1 to {}",
                           ShapeText(dims), ShapeText(before), ShapeText(after), kMaxShapeRank));
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    constexpr auto kMost = static_cast<std::int64_t>(kMaxElements);
    if (before[i] >= 0 && after[i] >= 0 && before[i] <= kMost && after[i] <= kMost) continue;
    return Invalid(kName, fmt::format("before {} or after {} of axis {} is not in 0 to {}",
                                      before[i], after[i], i, kMost));
  }
  return {};
}

/// An axis without padding joins the one before it.
std::vector<Axis> JoinedAxes(std::span<const std::int64_t> dims,
                             std::span<const std::int64_t> before,
                             std::span<const std::int64_t> after) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Axis axis{static_cast<std::size_t>(dims[i]), static_cast<std::size_t>(before[i]),
                    static_cast<std::size_t>(after[i])};
    if (axes.empty() || axis.size() != axis.inside) {
      axes.push_back(axis);
      continue;
    }
    axes.back().inside *= axis.inside;
    axes.back().before *= axis.inside;
    axes.back().after *= axis.inside;
  }
  return axes;
}

PadArgs Layout(const std::vector<Axis>& axes) {
  PadArgs args;
  const Axis& last = axes.back();
  args.row = last.size();
  args.row_before = last.before;
  args.row_inside = last.inside;
  args.outer.rank = static_cast<std::uint32_t>(axes.size() - 1);
  std::size_t stride = last.inside;
  for (std::size_t i = axes.size() - 1; i-- > 0;) {
    args.outer.dims[i] = axes[i].size();
    args.outer.strides[0][i] = stride;
    args.before[i] = axes[i].before;
    args.inside[i] = axes[i].inside;
    stride *= axes[i].inside;
  }
  return args;
}

}  // namespace

Result<Kernel> MakePad(std::span<const std::int64_t> dims, std::span<const std::int64_t> before,
                       std::span<const std::int64_t> after, float value) {
  LAGOON_RETURN_IF_ERROR(Check(dims, before, after));
  LAGOON_ASSIGN_OR_RETURN(const std::size_t in, CheckElements(kName, "x", dims));
  std::vector<std::int64_t> out_dims(dims.begin(), dims.end());
  for (std::size_t i = 0; i < dims.size(); ++i) out_dims[i] += before[i] + after[i];
  LAGOON_ASSIGN_OR_RETURN(const std::size_t out, CheckElements(kName, "y", out_dims));
  PadArgs args = Layout(JoinedAxes(dims, before, after));
  args.value = value;
  args.piece = std::min(args.row, kPiece);
  args.tasks = out / args.row * CeilDivide(args.row, args.piece);
  const double bytes = sizeof(float) * static_cast<double>(in + out);
  args.blocks = BlocksFor(MoveNs(bytes) + kNsPerTask * static_cast<double>(args.tasks), args.tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = HWY_DYNAMIC_DISPATCH(PickPadBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(PadArgs, x)};
  kernel.outputs = {offsetof(PadArgs, y)};
  kernel.bytes_moved = bytes;
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
