#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/slice.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees them.
#include <algorithm>

#include "kernels/shape_ops.h"
#include "kernels/simd-inl.h"
#include "kernels/strided.h"
#include "kernels/tiling.h"

#ifndef LAGOON_KERNELS_SLICE_ARGS_
#define LAGOON_KERNELS_SLICE_ARGS_
namespace lagoon {
namespace {

/// The output as rows of `row` elements, each cut into pieces; a task is one piece of one row.
struct SliceArgs {
  const float* x = nullptr;
  float* y = nullptr;
  OuterAxes<1> outer;     // of y; strides in x
  std::size_t start = 0;  // of y's first element in x
  std::size_t row = 1;
  std::size_t stride = 1;  // in x, from one element of a row to the next
  std::size_t piece = 1, tasks = 1, blocks = 1;
};

}  // namespace
}  // namespace lagoon
#endif

HWY_BEFORE_NAMESPACE();
namespace lagoon {
namespace HWY_NAMESPACE {
namespace {

bool SliceBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const SliceArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  const size_t pieces = CeilDivide(args.row, args.piece);
  size_t row = tasks.begin / pieces, piece = tasks.begin % pieces;
  Walk<1> walk(args.outer, row);
  for (size_t task = tasks.begin; task < tasks.end; ++task) {
    const size_t begin = piece * args.piece;
    const size_t count = std::min(args.piece, args.row - begin);
    const float* x = args.x + args.start + walk.offset(0) + begin * args.stride;
    float* y = args.y + row * args.row + begin;
    if (args.stride == 1) {
      simd::Copy(x, count, y);
    } else {
      for (size_t i = 0; i < count; ++i) y[i] = x[i * args.stride];
    }
    if (++piece < pieces) continue;
    piece = 0;
    ++row;
    walk.Next();
  }
  return true;
}

}  // namespace

Body PickSliceBody() { return &SliceBody; }

}  // namespace HWY_NAMESPACE
}  // namespace lagoon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <fmt/format.h>

#include <vector>

#include "base/check.h"
#include "kernels/checks.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickSliceBody);

constexpr char kName[] = "slice";

// Measured on a Xeon at 2 GHz, one thread, from the third-level cache; a strided element is a cache
// line of its own.
constexpr double kNsPerStridedElement = 1.2;
constexpr double kNsPerTask = 10;
constexpr std::size_t kPiece = 2048;

struct Axis {
  std::size_t size = 1, stride = 1;
};

Status Check(std::span<const std::int64_t> dims, std::span<const std::int64_t> starts,
             std::span<const std::int64_t> out_dims, std::span<const std::int64_t> steps) {
  const std::size_t rank = dims.size();
  if (rank == 0 || rank > kMaxShapeRank || starts.size() != rank || out_dims.size() != rank ||
      steps.size() != rank) {
    return Invalid(kName,
                   fmt::format("x {}, starts {}, out {}, steps {}: ranks must be equal, 1 to {}",
                               ShapeText(dims), ShapeText(starts), ShapeText(out_dims),
                               ShapeText(steps), kMaxShapeRank));
  }
  for (std::size_t i = 0; i < rank; ++i) {
    // Written so that nothing overflows: sizes are checked to be positive, steps may be anything.
    const bool inside = starts[i] >= 0 && starts[i] < dims[i] && steps[i] >= 1 &&
                        (out_dims[i] - 1) <= (dims[i] - 1 - starts[i]) / steps[i];
    if (inside) continue;
    return Invalid(kName,
                   fmt::format("axis {} of x {}: {} elements from {} in steps of {} leave it", i,
                               ShapeText(dims), out_dims[i], starts[i], steps[i]));
  }
  return {};
}

/// The output's axes without those of size one; neighbours with one stride joined. Sets args.start.
std::vector<Axis> JoinedAxes(std::span<const std::int64_t> dims,
                             std::span<const std::int64_t> starts,
                             std::span<const std::int64_t> out_dims,
                             std::span<const std::int64_t> steps, std::size_t& start) {
  std::vector<Axis> axes;
  std::size_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    const auto size = static_cast<std::size_t>(out_dims[i]);
    const std::size_t step = stride * static_cast<std::size_t>(steps[i]);
    start += stride * static_cast<std::size_t>(starts[i]);
    stride *= static_cast<std::size_t>(dims[i]);
    if (size == 1) continue;
    if (!axes.empty() && step == axes.back().size * axes.back().stride) {
      axes.back().size *= size;
    } else {
      axes.push_back({size, step});
    }
  }
  if (axes.empty()) axes.push_back({});
  return {axes.rbegin(), axes.rend()};
}

}  // namespace

Result<Kernel> MakeSlice(std::span<const std::int64_t> dims, std::span<const std::int64_t> starts,
                         std::span<const std::int64_t> out_dims,
                         std::span<const std::int64_t> steps) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t in, CheckElements(kName, "x", dims));
  LAGOON_ASSIGN_OR_RETURN(const std::size_t count, CheckElements(kName, "out", out_dims));
  LAGOON_RETURN_IF_ERROR(Check(dims, starts, out_dims, steps));
  LAGOON_CHECK(count <= in);
  SliceArgs args;
  const std::vector<Axis> axes = JoinedAxes(dims, starts, out_dims, steps, args.start);
  args.row = axes.back().size;
  args.stride = axes.back().stride;
  args.outer.rank = static_cast<std::uint32_t>(axes.size() - 1);
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
    args.outer.dims[i] = axes[i].size;
    args.outer.strides[0][i] = axes[i].stride;
  }
  args.piece = std::min(args.row, kPiece);
  args.tasks = count / args.row * CeilDivide(args.row, args.piece);
  const double bytes = 2 * sizeof(float) * static_cast<double>(count);
  const double ns =
      args.stride == 1 ? MoveNs(bytes) : kNsPerStridedElement * static_cast<double>(count);
  args.blocks = BlocksFor(ns + kNsPerTask * static_cast<double>(args.tasks), args.tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = HWY_DYNAMIC_DISPATCH(PickSliceBody)();
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(SliceArgs, x)};
  kernel.outputs = {offsetof(SliceArgs, y)};
  kernel.bytes_moved = bytes;
  return kernel;
}

}  // namespace lagoon
#endif  // HWY_ONCE
