#include "kernels/elementwise/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/checks.h"
#include "kernels/strided.h"
#include "kernels/tiling.h"

namespace lagoon {
namespace {

struct RowsArgs {
  const std::byte* x[kMaxRowOperands] = {};
  std::byte* y = nullptr;
  RowFunction row = nullptr;
  RowParams params;
  Finish finish;
  OuterAxes<kMaxRowOperands> outer;         // strides in bytes; negative ones wrap around
  std::size_t start[kMaxRowOperands] = {};  // in bytes
  std::ptrdiff_t inner_strides[kMaxRowOperands] = {};  // in elements
  std::size_t element_bytes[kMaxRowOperands] = {};
  std::uint32_t operands = 1;
  std::size_t out_bytes = 4;
  std::size_t inner = 1;  // elements per row
  std::size_t piece = 1;  // elements of a row that one task computes
  std::size_t tasks = 1, blocks = 1;
};

constexpr std::size_t kMaxRank = kMaxOuterAxes + 1;
/// Pieces begin at multiples of this, so that no two blocks share a cache line of a long row.
constexpr std::size_t kRowGrain = 64;
constexpr double kNsPerTask = 15;

/// Where a task begins in y, in elements. Tasks follow each other in y.
std::size_t BeginOf(const RowsArgs& args, std::size_t task) {
  const std::size_t pieces = CeilDivide(args.inner, args.piece);
  return task / pieces * args.inner + task % pieces * args.piece;
}

bool RowsBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  if (ctx.ShouldLeave()) return false;
  const auto& args = *static_cast<const RowsArgs*>(raw);
  const Range tasks = Share(args.tasks, args.blocks, block);
  const std::size_t pieces = CeilDivide(args.inner, args.piece);
  std::size_t row = tasks.begin / pieces, piece = tasks.begin % pieces;
  Walk<kMaxRowOperands> walk(args.outer, row);
  for (std::size_t task = tasks.begin; task < tasks.end; ++task) {
    const std::size_t begin = piece * args.piece;
    RowOperand x[kMaxRowOperands];
    for (std::uint32_t i = 0; i < args.operands; ++i) {
      const std::size_t along = begin * static_cast<std::size_t>(args.inner_strides[i]);
      const std::size_t at = args.start[i] + walk.offset(i) + along * args.element_bytes[i];
      x[i].data = args.x[i] + static_cast<std::ptrdiff_t>(at);
      x[i].stride = args.inner_strides[i];
    }
    const std::size_t count = std::min(args.piece, args.inner - begin);
    args.row(x, args.y + (row * args.inner + begin) * args.out_bytes, count, args.params);
    if (++piece < pieces) continue;
    piece = 0;
    ++row;
    walk.Next();
  }
  if (args.finish.row != nullptr) {
    const std::size_t begin = BeginOf(args, tasks.begin), end = BeginOf(args, tasks.end);
    args.finish(reinterpret_cast<float*>(args.y) + begin, nullptr, end - begin);
  }
  return true;
}

struct Axis {
  std::int64_t size = 1;
  std::int64_t strides[kMaxRowOperands] = {};
};

/// The axes of y without those of size one, with neighbours joined that all operands walk as one
/// axis.
std::vector<Axis> JoinedAxes(const RowsSpec& spec) {
  std::vector<Axis> axes;
  for (std::size_t i = 0; i < spec.out.size(); ++i) {
    if (spec.out[i] == 1) continue;
    Axis axis{spec.out[i], {}};
    bool joins = !axes.empty();
    for (std::size_t operand = 0; operand < spec.inputs.size(); ++operand) {
      axis.strides[operand] = spec.inputs[operand].strides[i];
      joins = joins && axes.back().strides[operand] == axis.strides[operand] * axis.size;
    }
    if (joins) {
      axis.size *= axes.back().size;
      axes.back() = axis;
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) axes.emplace_back();
  return axes;
}

RowsArgs Layout(const RowsSpec& spec, const std::vector<Axis>& axes) {
  RowsArgs args;
  args.row = spec.row;
  args.params = spec.params;
  args.finish = spec.finish;
  args.operands = static_cast<std::uint32_t>(spec.inputs.size());
  args.out_bytes = spec.out_bytes;
  args.inner = static_cast<std::size_t>(axes.back().size);
  args.outer.rank = static_cast<std::uint32_t>(axes.size() - 1);
  for (std::size_t operand = 0; operand < spec.inputs.size(); ++operand) {
    const RowView& view = spec.inputs[operand];
    const auto bytes = static_cast<std::int64_t>(view.element_bytes);
    args.start[operand] = static_cast<std::size_t>(view.start * bytes);
    args.inner_strides[operand] = axes.back().strides[operand];
    args.element_bytes[operand] = view.element_bytes;
    for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
      args.outer.strides[operand][i] = static_cast<std::size_t>(axes[i].strides[operand] * bytes);
    }
  }
  for (std::size_t i = 0; i + 1 < axes.size(); ++i) {
    args.outer.dims[i] = static_cast<std::size_t>(axes[i].size);
  }
  return args;
}

void SetTiles(double ns_per_element, std::size_t rows, RowsArgs& args) {
  const auto piece =
      std::max<std::size_t>(1, static_cast<std::size_t>(kBlockNs / 8 / ns_per_element));
  args.piece = std::min(args.inner, CeilDivide(piece, kRowGrain) * kRowGrain);
  if (ns_per_element * static_cast<double>(args.piece) > kBlockNs) args.piece = piece;
  args.tasks = rows * CeilDivide(args.inner, args.piece);
  const double elements = static_cast<double>(rows) * static_cast<double>(args.inner);
  args.blocks = BlocksFor(kNsPerTask * static_cast<double>(args.tasks) + ns_per_element * elements,
                          args.tasks);
}

}  // namespace

RowView BroadcastView(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& out,
                      std::size_t element_bytes) {
  RowView view;
  view.element_bytes = element_bytes;
  view.strides.assign(out.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::int64_t size = dims[dims.size() - 1 - i];
    if (size != 1) view.strides[out.size() - 1 - i] = stride;
    stride *= size;
  }
  return view;
}

namespace {

/// Without those that are read again along an axis.
double BytesRead(const RowView& view, const std::vector<std::int64_t>& out) {
  auto bytes = static_cast<double>(view.element_bytes);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (view.strides[i] != 0) bytes *= static_cast<double>(out[i]);
  }
  return bytes;
}

}  // namespace

Result<Kernel> MakeRows(const RowsSpec& spec) {
  LAGOON_CHECK(spec.row != nullptr && !spec.inputs.empty() &&
               spec.inputs.size() <= kMaxRowOperands && spec.ns_per_element > 0);
  LAGOON_ASSIGN_OR_RETURN(const std::size_t count, CheckElements(spec.name, "y", spec.out));
  for (const RowView& view : spec.inputs) LAGOON_CHECK(view.strides.size() == spec.out.size());
  const std::vector<Axis> axes = JoinedAxes(spec);
  if (axes.size() > kMaxRank) {
    return Invalid(spec.name, fmt::format("y {} needs {} axes, the most is {}", ShapeText(spec.out),
                                          axes.size(), kMaxRank));
  }
  RowsArgs args = Layout(spec, axes);
  double bytes = static_cast<double>(count * spec.out_bytes);
  for (const RowView& view : spec.inputs) bytes += BytesRead(view, spec.out);
  const double move_ns = MoveNs(bytes) / static_cast<double>(count);
  SetTiles(std::max(move_ns, spec.ns_per_element), count / args.inner, args);
  Kernel kernel;
  kernel.name = spec.name;
  kernel.body = &RowsBody;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    kernel.inputs.push_back(
        static_cast<std::uint32_t>(offsetof(RowsArgs, x) + i * sizeof(std::byte*)));
  }
  kernel.outputs = {offsetof(RowsArgs, y)};
  kernel.flops = static_cast<double>(count);
  kernel.bytes_moved = bytes;
  return kernel;
}

}  // namespace lagoon
