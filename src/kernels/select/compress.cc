#include <algorithm>
#include <cstring>

#include "kernels/checks.h"
#include "kernels/elementwise/row_loops.h"
#include "kernels/select/select.h"
#include "kernels/tiling.h"

namespace lagoon {
namespace {

using rows::Load;

constexpr double kNsPerFlag = 1.5;
constexpr double kNsPerIndex = 3;
constexpr std::size_t kRunPiece = 4096;  // bytes of a run that a task copies

/// bool as a byte, because a C++ bool may only be 0 or 1.
template <typename T>
using Element = std::conditional_t<std::is_same_v<T, bool>, rows::Flag, T>;

template <typename T>
bool IsTrue(T element) {
  if constexpr (std::is_same_v<T, rows::Flag>) {
    return element.byte != 0;
  } else {
    return Load(element) != 0;
  }
}

struct CountArgs {
  const std::byte* x = nullptr;
  std::int64_t* counts = nullptr;
  std::size_t count = 1, pieces = 1, blocks = 1;
};

template <typename T>
bool CountBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const CountArgs*>(raw);
  const Range pieces = Share(args.pieces, args.blocks, block);
  const T* const x = reinterpret_cast<const T*>(args.x);
  for (std::size_t piece = pieces.begin; piece < pieces.end; ++piece) {
    const std::size_t end = std::min(args.count, (piece + 1) * kCountPiece);
    std::int64_t count = 0;
    for (std::size_t i = piece * kCountPiece; i < end; ++i) count += IsTrue(x[i]) ? 1 : 0;
    args.counts[piece] = count;
  }
  return true;
}

/// How many elements are true before piece `piece`, and in all.
struct Totals {
  std::int64_t before = 0, all = 0;
};

Totals Sum(const std::int64_t* counts, std::size_t pieces, std::size_t piece) {
  Totals totals;
  for (std::size_t i = 0; i < pieces; ++i) {
    if (i == piece) totals.before = totals.all;
    totals.all += counts[i];
  }
  return totals;
}

struct NonZeroArgs {
  const std::byte* x = nullptr;
  const std::int64_t* counts = nullptr;
  std::int64_t* y = nullptr;
  std::int64_t* sizes = nullptr;
  std::int64_t dims[kMaxSelectAxes] = {};
  std::size_t rank = 1, count = 1, pieces = 1;
};

/// A block finds the elements of one piece.
template <typename T>
bool NonZeroBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const NonZeroArgs*>(raw);
  const Totals totals = Sum(args.counts, args.pieces, block);
  if (block == 0) {
    args.sizes[0] = static_cast<std::int64_t>(args.rank);
    args.sizes[1] = totals.all;
  }
  std::int64_t at[kMaxSelectAxes] = {};
  auto rest = static_cast<std::int64_t>(block * kCountPiece);
  for (std::size_t axis = args.rank; axis-- > 0; rest /= args.dims[axis]) {
    at[axis] = rest % args.dims[axis];
  }
  const T* const x = reinterpret_cast<const T*>(args.x);
  std::int64_t* to = args.y + totals.before;
  const std::size_t end = std::min(args.count, (block + std::size_t{1}) * kCountPiece);
  for (std::size_t i = block * kCountPiece; i < end; ++i) {
    if (IsTrue(x[i])) {
      for (std::size_t axis = 0; axis < args.rank; ++axis) {
        to[static_cast<std::int64_t>(axis) * totals.all] = at[axis];
      }
      ++to;
    }
    for (std::size_t axis = args.rank; axis-- > 0; at[axis] = 0) {
      if (++at[axis] < args.dims[axis]) break;
    }
  }
  return true;
}

struct CompressArgs {
  const std::byte* x = nullptr;
  const rows::Flag* condition = nullptr;
  const std::int64_t* counts = nullptr;
  std::byte* y = nullptr;
  std::int64_t* sizes = nullptr;
  std::int64_t dims[kMaxSelectAxes] = {};
  std::size_t rank = 1, axis = 0;
  std::size_t outer = 1, items = 1, run = 4;  // x as [outer, items] of runs of bytes
  std::size_t length = 1, pieces = 1, parts = 1;
  std::size_t blocks = 1;
};

void WriteSizes(const CompressArgs& args, std::int64_t count) {
  for (std::size_t axis = 0; axis < args.rank; ++axis) {
    args.sizes[axis] = axis == args.axis ? count : args.dims[axis];
  }
}

/// A task is a part of the run of one element of the condition, for one outer index.
bool CompressBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const CompressArgs*>(raw);
  const Range tasks = Share(args.outer * args.length * args.parts, args.blocks, block);
  std::size_t part = tasks.begin % args.parts;
  std::size_t item = tasks.begin / args.parts % args.length;
  std::size_t outer = tasks.begin / args.parts / args.length;
  const Totals totals = Sum(args.counts, args.pieces, item / kCountPiece);
  if (block == 0) WriteSizes(args, totals.all);
  auto place = static_cast<std::size_t>(totals.before);
  for (std::size_t i = item / kCountPiece * kCountPiece; i < item; ++i) {
    place += IsTrue(args.condition[i]) ? 1 : 0;
  }
  const auto all = static_cast<std::size_t>(totals.all);
  for (std::size_t task = tasks.begin; task < tasks.end; ++task) {
    const bool taken = IsTrue(args.condition[item]);
    if (taken) {
      const Range bytes = Share(args.run, args.parts, part);
      std::memcpy(args.y + (outer * all + place) * args.run + bytes.begin,
                  args.x + (outer * args.items + item) * args.run + bytes.begin, bytes.size());
    }
    if (++part < args.parts) continue;
    part = 0;
    place += taken ? 1 : 0;
    if (++item < args.length) continue;
    item = place = 0;
    ++outer;
  }
  return true;
}

Status CheckCount(const char* name, std::size_t count) {
  LAGOON_RETURN_IF_ERROR(CheckPositive(name, {{"count", count}}));
  if (count <= kMaxConditions) return {};
  return Fail(ErrorCode::kUnimplemented, std::string(name) + ": " + std::to_string(count) +
                                             " elements, the most is " +
                                             std::to_string(kMaxConditions));
}

template <typename F>
Body ForElements(DataType type, F&& f) {
  return WithElementType(type, [&]<typename T>(std::type_identity<T>) -> Body {
    return f(std::type_identity<Element<T>>{});
  });
}

}  // namespace

Result<Kernel> MakeCountTrue(const CountTrueSpec& spec) {
  static constexpr char kName[] = "count_true";
  LAGOON_RETURN_IF_ERROR(CheckCount(kName, spec.count));
  CountArgs args;
  args.count = spec.count;
  args.pieces = CeilDivide(spec.count, kCountPiece);
  args.blocks = BlocksFor(kNsPerFlag * static_cast<double>(spec.count), args.pieces);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = ForElements(
      spec.type, []<typename T>(std::type_identity<T>) -> Body { return &CountBody<T>; });
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(CountArgs, x)};
  kernel.outputs = {offsetof(CountArgs, counts)};
  kernel.bytes_moved = static_cast<double>(spec.count * SizeOf(spec.type));
  return kernel;
}

Result<Kernel> MakeNonZero(const NonZeroSpec& spec) {
  static constexpr char kName[] = "non_zero";
  if (spec.dims.size() > kMaxSelectAxes) return Invalid(kName, "more than 8 axes");
  LAGOON_ASSIGN_OR_RETURN(const std::size_t count, CheckElements(kName, "x", spec.dims));
  LAGOON_RETURN_IF_ERROR(CheckCount(kName, count));
  NonZeroArgs args;
  args.rank = std::max<std::size_t>(spec.dims.size(), 1);
  args.dims[0] = 1;
  std::copy(spec.dims.begin(), spec.dims.end(), args.dims);
  args.count = count;
  args.pieces = CeilDivide(count, kCountPiece);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = ForElements(
      spec.type, []<typename T>(std::type_identity<T>) -> Body { return &NonZeroBody<T>; });
  kernel.blocks = static_cast<std::uint32_t>(args.pieces);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(NonZeroArgs, x), offsetof(NonZeroArgs, counts)};
  kernel.outputs = {offsetof(NonZeroArgs, y), offsetof(NonZeroArgs, sizes)};
  kernel.bytes_moved =
      static_cast<double>(count) * (static_cast<double>(SizeOf(spec.type)) + kNsPerIndex * 8);
  return kernel;
}

Result<Kernel> MakeCompress(const CompressSpec& spec) {
  static constexpr char kName[] = "compress";
  const std::size_t rank = spec.dims.size();
  if (rank < 1 || rank > kMaxSelectAxes || spec.axis >= rank) {
    return Invalid(kName, "axis " + std::to_string(spec.axis) + " of " + ShapeText(spec.dims));
  }
  LAGOON_ASSIGN_OR_RETURN(const std::size_t count, CheckElements(kName, "x", spec.dims));
  LAGOON_RETURN_IF_ERROR(CheckCount(kName, spec.length));
  CompressArgs args;
  args.rank = rank;
  args.axis = spec.axis;
  std::copy(spec.dims.begin(), spec.dims.end(), args.dims);
  args.items = static_cast<std::size_t>(spec.dims[spec.axis]);
  if (spec.length > args.items) return Invalid(kName, "the condition is longer than the axis");
  for (std::size_t axis = 0; axis < spec.axis; ++axis) {
    args.outer *= static_cast<std::size_t>(spec.dims[axis]);
  }
  args.run = count / args.outer / args.items * spec.element_bytes;
  args.length = spec.length;
  args.pieces = CeilDivide(spec.length, kCountPiece);
  args.parts = CeilDivide(args.run, kRunPiece);
  const std::size_t tasks = args.outer * args.length * args.parts;
  const double bytes = 2.0 * static_cast<double>(args.outer * args.length * args.run);
  args.blocks = BlocksFor(2 * kNsPerFlag * static_cast<double>(tasks) + MoveNs(bytes), tasks);
  Kernel kernel;
  kernel.name = kName;
  kernel.body = &CompressBody;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(CompressArgs, x), offsetof(CompressArgs, condition),
                   offsetof(CompressArgs, counts)};
  kernel.outputs = {offsetof(CompressArgs, y), offsetof(CompressArgs, sizes)};
  kernel.bytes_moved = bytes;
  return kernel;
}

}  // namespace lagoon
