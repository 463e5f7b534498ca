#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/move/transpose.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, so that every target sees it.
#include "kernels/move/transpose-inl.h"

#if HWY_ONCE
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "kernels/checks.h"
#include "kernels/cpu_level.h"
#include "kernels/move/shape_ops.h"
#include "kernels/move/transpose.h"

namespace lagoon {
namespace {

HWY_EXPORT(PickTransposeBodies);
HWY_EXPORT(PickByteTransposeBodies);

constexpr char kName[] = "transpose";

// Measured on a Xeon at 2 GHz, one thread, other load on the host: 64x56x56, then 1000x64x64, whose
// strides miss the second-level cache and the TLB.
constexpr double kNsPerFlipped = 0.5;
constexpr double kNsPerFarFlipped = 2.2;
constexpr double kNsPerNarrowFlipped = 1.5;  // one side is shorter than a vector
constexpr std::size_t kNarrow = 8;
constexpr double kFarElements = 1 << 19;
constexpr double kFarRuns = 1.5;  // runs of 256 bytes, relative to one stream
constexpr double kNsPerTask = 8;
constexpr std::size_t kMostOfPixel = 4096;  // elements

constexpr std::size_t kFlipTile = 32;    // 4 KB on each side
constexpr std::size_t kRunPiece = 4096;  // 2 us
constexpr std::size_t kInterleaved = 1024;
constexpr double kNsPerPixel = 3;  // beside its elements

// Bytes: instructions counted and rounded up, not measured.
constexpr double kNsPerFlippedByte = 0.3;
constexpr double kNsPerFarFlippedByte = 0.8;
constexpr double kNsPerPlainByte = 1.2;  // a side is shorter than a vector
constexpr double kNsPerInterleavedByte = 0.15;
constexpr double kFarBytes = 1 << 21;
constexpr std::size_t kByteTile = 64;
constexpr std::size_t kRunBytes = 16'384;
constexpr std::size_t kInterleavedColumns = 2048;

/// An axis of the output: its size, and its strides in both tensors.
struct Axis {
  std::size_t size = 1, x_stride = 1, y_stride = 1;
};

Status Check(std::span<const std::int64_t> dims, std::span<const std::int64_t> permutation) {
  if (dims.empty() || dims.size() > kMaxTransposeRank) {
    return Invalid(kName,
                   fmt::format("x has rank {}, must be 1 to {}", dims.size(), kMaxTransposeRank));
  }
  std::uint32_t seen = 0;
  for (const std::int64_t axis : permutation) {
    if (axis >= 0 && axis < static_cast<std::int64_t>(dims.size())) seen |= 1u << axis;
  }
  if (permutation.size() != dims.size() || seen != (1u << dims.size()) - 1) {
    return Invalid(kName, fmt::format("permutation {} is none of the axes of x {}",
                                      ShapeText(permutation), ShapeText(dims)));
  }
  return {};
}

/// The output's axes without those of size one, with neighbours joined that are neighbours in both
/// tensors. May be empty.
std::vector<Axis> JoinedAxes(std::span<const std::int64_t> dims,
                             std::span<const std::int64_t> permutation) {
  std::size_t x_strides[kMaxTransposeRank];
  std::size_t stride = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    x_strides[i] = stride;
    stride *= static_cast<std::size_t>(dims[i]);
  }
  std::vector<Axis> axes;
  for (const std::int64_t from : permutation) {
    const auto size = static_cast<std::size_t>(dims[static_cast<std::size_t>(from)]);
    const std::size_t x_stride = x_strides[from];
    if (size == 1) continue;
    if (!axes.empty() && axes.back().x_stride == size * x_stride) {
      axes.back().size *= size;
      axes.back().x_stride = x_stride;
    } else {
      axes.push_back({size, x_stride, 1});
    }
  }
  stride = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    axes[i].y_stride = stride;
    stride *= axes[i].size;
  }
  return axes;
}

/// The last axis of y becomes the rows, the last axis of x the columns. If both are the same axis,
/// it becomes the columns and stays together.
template <class Args>
Args Layout(const std::vector<Axis>& axes) {
  Args args;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].x_stride == 1) {
      args.columns = axes[i].size;
      args.y_column = axes[i].y_stride;
    } else if (i + 1 == axes.size()) {
      args.rows = axes[i].size;
      args.x_row = axes[i].x_stride;
    } else {
      const std::uint32_t outer = args.outer.rank++;
      args.outer.dims[outer] = axes[i].size;
      args.outer.strides[0][outer] = axes[i].x_stride;
      args.outer.strides[1][outer] = axes[i].y_stride;
    }
  }
  return args;
}

/// Whether there are many small matrices that follow each other in both tensors.
template <class Args>
bool HasPixels(const Args& args) {
  const std::size_t elements = args.rows * args.columns;
  return args.outer.rank == 1 && args.outer.strides[0][0] == elements &&
         args.outer.strides[1][0] == elements && args.x_row == args.columns &&
         args.y_column == args.rows && elements <= kMostOfPixel;
}

/// How a transposition is computed: the time beside reading and writing.
struct Way {
  Body body = nullptr;
  double ns_per_element = 0, ns_per_task = kNsPerTask;
};

/// Picks the body and its tiles.
Way Choose(const TransposeBodies& bodies, double count, TransposeArgs& args) {
  const double stream_ns = MoveNs(2 * sizeof(float) * count) / count;
  if (args.rows == 1) {
    args.tile_columns = kRunPiece;
    return {bodies.runs, kFarRuns * stream_ns};
  }
  const bool pixels = HasPixels(args);
  const bool interleaves = args.rows <= 4 && args.y_column == args.rows && args.columns >= kNarrow;
  const bool deinterleaves =
      args.columns <= 4 && args.x_row == args.columns && args.rows >= kNarrow;
  args.tile_rows = pixels || interleaves ? args.rows : deinterleaves ? kInterleaved : kFlipTile;
  args.tile_columns = pixels || deinterleaves ? args.columns
                      : interleaves           ? kInterleaved
                                              : kFlipTile;
  const double ns_per_task = pixels ? kNsPerPixel : kNsPerTask;
  if (interleaves) {
    return {(pixels ? bodies.interleave_pixels : bodies.interleave)[args.rows - 2], stream_ns,
            ns_per_task};
  }
  if (deinterleaves) {
    return {(pixels ? bodies.deinterleave_pixels : bodies.deinterleave)[args.columns - 2],
            stream_ns, ns_per_task};
  }
  double each_ns = count > kFarElements && !pixels ? kNsPerFarFlipped : kNsPerFlipped;
  if (std::min(args.rows, args.columns) < kNarrow) each_ns = std::max(each_ns, kNsPerNarrowFlipped);
  return {pixels ? bodies.pixels : bodies.matrices, each_ns, ns_per_task};
}

template <class Args>
void SetBlocks(const Way& way, double count, Args& args) {
  args.tasks = args.outer.count() * CeilDivide(args.rows, args.tile_rows) *
               CeilDivide(args.columns, args.tile_columns);
  const double ns = way.ns_per_element * count + way.ns_per_task * static_cast<double>(args.tasks);
  args.blocks = BlocksFor(ns, args.tasks);
}

template <class Args>
Kernel KernelOf(Body body, const Args& args, double count) {
  Kernel kernel;
  kernel.name = kName;
  kernel.body = body;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {static_cast<std::uint32_t>(offsetof(Args, x))};
  kernel.outputs = {static_cast<std::uint32_t>(offsetof(Args, y))};
  kernel.bytes_moved = 2 * sizeof(*args.x) * count;
  return kernel;
}

/// The longest side of a tile, if a side is cut evenly into as few tiles as possible.
std::size_t EvenTile(std::size_t side) { return CeilDivide(side, CeilDivide(side, kByteTile)); }

/// Picks the body and its tiles.
Way ChooseForBytes(const ByteTransposeBodies& bodies, double count, ByteTransposeArgs& args) {
  if (args.rows == 1) {
    args.tile_columns = kRunBytes;
    return {bodies.runs, kFarRuns * MoveNs(2 * count) / count};
  }
  const bool interleaves = args.rows <= 4 && args.y_column == args.rows;
  const std::size_t least = interleaves ? args.columns : std::min(args.rows, args.columns);
  const double ns = least < kNarrow     ? kNsPerPlainByte
                    : interleaves       ? kNsPerInterleavedByte
                    : count > kFarBytes ? kNsPerFarFlippedByte
                                        : kNsPerFlippedByte;
  if (HasPixels(args)) {
    args.tile_rows = args.rows;
    args.tile_columns = args.columns;
    return {interleaves ? bodies.interleave_pixels[args.rows - 2] : bodies.pixels, ns, kNsPerPixel};
  }
  if (interleaves) {
    args.tile_rows = args.rows;
    args.tile_columns = kInterleavedColumns;
    return {bodies.interleave[args.rows - 2], ns};
  }
  args.tile_rows = EvenTile(args.rows);
  args.tile_columns = EvenTile(args.columns);
  return {bodies.matrices, ns};
}

Result<Kernel> MakeTransposeOfBytes(std::span<const std::int64_t> dims,
                                    std::span<const std::int64_t> permutation) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t elements, CheckElements(kName, "x", dims));
  const auto count = static_cast<double>(elements);
  auto args = Layout<ByteTransposeArgs>(JoinedAxes(dims, permutation));
  const Way way = ChooseForBytes(LAGOON_DISPATCH(PickByteTransposeBodies)(), count, args);
  SetBlocks(way, count, args);
  return KernelOf(way.body, args, count);
}

/// For elements of 8 bytes: their halves become one more axis, which stays the last one.
Result<Kernel> MakeTransposeOfPairs(std::span<const std::int64_t> dims,
                                    std::span<const std::int64_t> permutation) {
  std::vector<std::int64_t> halves(dims.begin(), dims.end());
  std::vector<std::int64_t> order(permutation.begin(), permutation.end());
  halves.push_back(2);
  order.push_back(static_cast<std::int64_t>(dims.size()));
  return MakeTranspose(halves, order);
}

Result<Kernel> MakeTransposeOfOthers(std::span<const std::int64_t> dims,
                                     std::span<const std::int64_t> permutation,
                                     std::size_t element_bytes) {
  std::vector<std::int64_t> x_strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) x_strides[i - 1] = x_strides[i] * dims[i];
  StridedCopySpec spec;
  spec.element_bytes = element_bytes;
  for (const std::int64_t axis : permutation) {
    spec.out.push_back(dims[static_cast<std::size_t>(axis)]);
    spec.strides.push_back(x_strides[static_cast<std::size_t>(axis)]);
  }
  return MakeStridedCopy(spec);
}

}  // namespace

Result<Kernel> MakeTranspose(std::span<const std::int64_t> dims,
                             std::span<const std::int64_t> permutation, std::size_t element_bytes) {
  LAGOON_RETURN_IF_ERROR(Check(dims, permutation));
  if (element_bytes == 8 && dims.size() < kMaxTransposeRank) {
    return MakeTransposeOfPairs(dims, permutation);
  }
  if (element_bytes == 1) return MakeTransposeOfBytes(dims, permutation);
  if (element_bytes != 4) return MakeTransposeOfOthers(dims, permutation, element_bytes);
  LAGOON_ASSIGN_OR_RETURN(const std::size_t elements, CheckElements(kName, "x", dims));
  const auto count = static_cast<double>(elements);
  auto args = Layout<TransposeArgs>(JoinedAxes(dims, permutation));
  const Way way = Choose(LAGOON_DISPATCH(PickTransposeBodies)(), count, args);
  SetBlocks(way, count, args);
  return KernelOf(way.body, args, count);
}

void TransposeBytes(const std::uint8_t* from, std::size_t rows, std::size_t columns,
                    std::uint8_t* to) {
  const std::array dims{static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)};
  constexpr std::array<std::int64_t, 2> kOrder{1, 0};
  Result<Kernel> kernel = MakeTranspose(dims, kOrder, 1);
  LAGOON_CHECK(kernel.has_value());
  const void* const pointers[] = {from, to};
  std::memcpy(kernel->args.data() + kernel->inputs[0], &pointers[0], sizeof(void*));
  std::memcpy(kernel->args.data() + kernel->outputs[0], &pointers[1], sizeof(void*));
  BlockContext context({}, {});
  for (std::uint32_t block = 0; block < kernel->blocks; ++block) {
    LAGOON_CHECK(kernel->body(kernel->args.data(), block, context));
  }
}

}  // namespace lagoon
#endif  // HWY_ONCE
