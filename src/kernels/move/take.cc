#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/checks.h"
#include "kernels/elementwise/row_loops.h"
#include "kernels/move/shape_ops.h"
#include "kernels/tiling.h"

namespace lagoon {
namespace {

constexpr char kTakeName[] = "take";
constexpr std::size_t kMaxAxes = 16;
constexpr std::size_t kMaxRun = 4096;  // bytes copied at once

/// y is seen as rows of entries; an entry is a run of neighbouring elements. For each position
/// along each axis the table has the offset in x in bytes, or a negative number.
struct TakeArgs {
  const std::byte* x = nullptr;
  const std::int64_t* table = nullptr;
  std::byte* y = nullptr;
  std::size_t dims[kMaxAxes] = {};   // last one: entries per row
  std::size_t begin[kMaxAxes] = {};  // where each axis begins in the table
  std::size_t axes = 1;
  std::size_t run = 4, element = 4;  // bytes
  /// The longest range of a row's entries that also lie one behind the other in x.
  std::size_t near_begin = 0, near_end = 0;
  std::uint64_t fill = 0;
  std::size_t rows = 1, pieces = 1, blocks = 1;
};

constexpr double kNsPerEntry = 1;
constexpr double kNsPerRow = 20;

void Fill(std::byte* y, std::size_t bytes, std::uint64_t fill, std::size_t element) {
  for (std::size_t at = 0; at < bytes; at += element) std::memcpy(y + at, &fill, element);
}

/// Walks the rows of y in order; divides only for the first row.
class RowWalk {
 public:
  RowWalk(const TakeArgs& args, std::size_t row) : args_(args) {
    for (std::size_t axis = args.axes - 1; axis-- > 0;) {
      at_[axis] = row % args.dims[axis];
      row /= args.dims[axis];
    }
  }

  /// Where the row begins in x; negative: the whole row is filled.
  std::int64_t Start() const {
    std::int64_t start = 0;
    for (std::size_t axis = 0; axis + 1 < args_.axes; ++axis) {
      const std::int64_t offset = args_.table[args_.begin[axis] + at_[axis]];
      if (offset < 0) return -1;
      start += offset;
    }
    return start;
  }

  void Next() {
    for (std::size_t axis = args_.axes - 1; axis-- > 0;) {
      if (++at_[axis] < args_.dims[axis]) return;
      at_[axis] = 0;
    }
  }

 private:
  const TakeArgs& args_;
  std::size_t at_[kMaxAxes] = {};
};

template <typename T>
void TakeElements(const TakeArgs& args, std::int64_t start, Range entries, std::byte* y) {
  const std::int64_t* const table = args.table + args.begin[args.axes - 1];
  T fill;
  std::memcpy(&fill, &args.fill, sizeof(T));
  T* const out = reinterpret_cast<T*>(y);
  for (std::size_t i = entries.begin; i < entries.end; ++i) {
    T element = fill;
    if (table[i] >= 0) std::memcpy(&element, args.x + start + table[i], sizeof(T));
    out[i - entries.begin] = element;
  }
}

void TakeRuns(const TakeArgs& args, std::int64_t start, Range entries, std::byte* y) {
  const std::int64_t* const table = args.table + args.begin[args.axes - 1];
  for (std::size_t i = entries.begin; i < entries.end; ++i, y += args.run) {
    if (table[i] < 0) {
      Fill(y, args.run, args.fill, args.element);
    } else {
      std::memcpy(y, args.x + start + table[i], args.run);
    }
  }
}

/// Entries that need a look at the table each.
void TakeEntries(const TakeArgs& args, std::int64_t start, Range entries, std::byte* y) {
  if (args.run != args.element) return TakeRuns(args, start, entries, y);
  switch (args.element) {
    case 1:
      return TakeElements<std::uint8_t>(args, start, entries, y);
    case 2:
      return TakeElements<std::uint16_t>(args, start, entries, y);
    case 4:
      return TakeElements<std::uint32_t>(args, start, entries, y);
    default:
      return TakeElements<std::uint64_t>(args, start, entries, y);
  }
}

void TakePiece(const TakeArgs& args, std::int64_t start, Range entries, std::byte* y) {
  if (start < 0) return Fill(y, entries.size() * args.run, args.fill, args.element);
  const Range near{std::clamp(args.near_begin, entries.begin, entries.end),
                   std::clamp(args.near_end, entries.begin, entries.end)};
  if (near.begin >= near.end) return TakeEntries(args, start, entries, y);
  TakeEntries(args, start, {entries.begin, near.begin}, y);
  const std::byte* const from = args.x + start + args.table[args.begin[args.axes - 1] + near.begin];
  std::memcpy(y + (near.begin - entries.begin) * args.run, from, near.size() * args.run);
  TakeEntries(args, start, {near.end, entries.end}, y + (near.end - entries.begin) * args.run);
}

bool TakeBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const TakeArgs*>(raw);
  const std::size_t entries = args.dims[args.axes - 1];
  const Range tasks = Share(args.rows * args.pieces, args.blocks, block);
  std::size_t row = tasks.begin / args.pieces, piece = tasks.begin % args.pieces;
  RowWalk walk(args, row);
  // Where the row before this one begins in x. Negative: this block has not written all of it.
  std::int64_t before = -1;
  for (std::size_t task = tasks.begin; task < tasks.end; ++task) {
    const Range part = Share(entries, args.pieces, piece);
    const std::int64_t start = walk.Start();
    std::byte* const y = args.y + (row * entries + part.begin) * args.run;
    if (start >= 0 && start == before) {
      std::memcpy(y, y - entries * args.run, entries * args.run);  // as of an enlarged image
    } else {
      TakePiece(args, start, part, y);
    }
    if (args.pieces == 1) before = start;
    if (++piece < args.pieces) continue;
    piece = 0;
    ++row;
    walk.Next();
  }
  return true;
}

Status Check(const TakeSpec& spec) {
  if (spec.dims.size() != spec.maps.size() || spec.dims.size() > kMaxAxes) {
    return Invalid(kTakeName, fmt::format("{} maps for x {}, at most {}", spec.maps.size(),
                                          ShapeText(spec.dims), kMaxAxes));
  }
  for (std::size_t i = 0; i < spec.dims.size(); ++i) {
    for (const std::int64_t index : spec.maps[i]) {
      if (index < spec.dims[i]) continue;
      return Invalid(kTakeName, fmt::format("axis {} of x {} has no element {}", i,
                                            ShapeText(spec.dims), index));
    }
  }
  return {};
}

bool IsIdentity(const std::vector<std::int64_t>& map, std::int64_t dim) {
  if (static_cast<std::int64_t>(map.size()) != dim) return false;
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (map[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

/// The largest divisor of `count` that is at most `limit`.
std::size_t Divisor(std::size_t count, std::size_t limit) {
  std::size_t divisor = std::min(count, limit);
  while (count % divisor != 0) --divisor;
  return divisor;
}

/// Adds an axis in front of the axes of `args`, which are collected from the back.
void AddAxis(const std::vector<std::int64_t>& map, std::size_t stride, TakeArgs& args,
             std::vector<std::int64_t>& table) {
  args.begin[args.axes] = table.size();
  args.dims[args.axes] = map.size();
  ++args.axes;
  for (const std::int64_t index : map) {
    table.push_back(index < 0 ? -1 : index * static_cast<std::int64_t>(stride));
  }
}

/// Sets near_begin and near_end.
void FindNear(const std::vector<std::int64_t>& table, TakeArgs& args) {
  const std::size_t entries = args.dims[args.axes - 1];
  const std::int64_t* const offsets = table.data() + args.begin[args.axes - 1];
  for (std::size_t begin = 0, end; begin < entries; begin = end) {
    end = begin + 1;
    if (offsets[begin] < 0) continue;
    const auto run = static_cast<std::int64_t>(args.run);
    while (end < entries && offsets[end] == offsets[end - 1] + run) ++end;
    if (end - begin <= args.near_end - args.near_begin) continue;
    args.near_begin = begin;
    args.near_end = end;
  }
}

std::vector<std::int64_t> Identity(std::size_t count) {
  std::vector<std::int64_t> map(count);
  for (std::size_t i = 0; i < count; ++i) map[i] = static_cast<std::int64_t>(i);
  return map;
}

/// Fills dims, begin, axes and run. `args` gets at least one axis and at most as many as x. Inner
/// axes that stay whole become the run.
void Layout(const TakeSpec& spec, TakeArgs& args, std::vector<std::int64_t>& table) {
  std::size_t axis = spec.dims.size();
  std::size_t whole = 1;  // elements
  while (axis > 0 && IsIdentity(spec.maps[axis - 1], spec.dims[axis - 1])) {
    whole *= static_cast<std::size_t>(spec.dims[--axis]);
  }
  const std::size_t run = Divisor(whole, kMaxRun / spec.element_bytes);
  args.run = run * spec.element_bytes;
  args.axes = 0;
  std::size_t stride = whole * spec.element_bytes;
  if (whole != run || axis == 0) AddAxis(Identity(whole / run), args.run, args, table);
  while (axis-- > 0) {
    AddAxis(spec.maps[axis], stride, args, table);
    stride *= static_cast<std::size_t>(spec.dims[axis]);
  }
  std::reverse(args.dims, args.dims + args.axes);
  std::reverse(args.begin, args.begin + args.axes);
}

}  // namespace

Result<TakeKernel> MakeTake(const TakeSpec& spec) {
  LAGOON_RETURN_IF_ERROR(Check(spec));
  std::vector<std::int64_t> out;
  for (const auto& map : spec.maps) out.push_back(static_cast<std::int64_t>(map.size()));
  LAGOON_RETURN_IF_ERROR(CheckElements(kTakeName, "x", spec.dims));
  LAGOON_ASSIGN_OR_RETURN(const std::size_t count, CheckElements(kTakeName, "y", out));
  TakeKernel take;
  TakeArgs args;
  args.fill = spec.fill;
  args.element = spec.element_bytes;
  Layout(spec, args, take.table);
  FindNear(take.table, args);
  const std::size_t bytes = count * spec.element_bytes;
  const std::size_t entries = args.dims[args.axes - 1];
  args.rows = bytes / args.run / entries;
  const double entry_ns = kNsPerEntry + MoveNs(2.0 * static_cast<double>(args.run));
  const double row_ns = kNsPerRow + entry_ns * static_cast<double>(entries);
  args.pieces =
      std::min<std::size_t>(entries, 1 + static_cast<std::size_t>(row_ns / (kBlockNs / 8)));
  args.blocks =
      BlocksFor(row_ns * static_cast<double>(args.rows) + MoveNs(2.0 * static_cast<double>(bytes)),
                args.rows * args.pieces);
  Kernel& kernel = take.kernel;
  kernel.name = kTakeName;
  kernel.body = &TakeBody;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(TakeArgs, x), offsetof(TakeArgs, table)};
  kernel.outputs = {offsetof(TakeArgs, y)};
  kernel.bytes_moved = 2.0 * static_cast<double>(bytes);
  return take;
}

}  // namespace lagoon
