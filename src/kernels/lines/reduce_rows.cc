#include "kernels/lines/reduce_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/checks.h"
#include "kernels/elementwise/row_loops.h"
#include "kernels/lines/arg_step.h"
#include "kernels/tiling.h"

namespace lagoon {
namespace {

using rows::Flag;
using rows::Load;
using rows::Store;

/// A task is a tile of up to `columns` neighbouring columns of one outer index.
struct ColumnArgs {
  const std::byte* x = nullptr;
  std::byte* y = nullptr;
  std::size_t axis = 1, inner = 1;
  std::size_t columns = 1, tiles_per_outer = 1, tasks = 1, blocks = 1;
  bool least = false, last = false;  // for MakeArg
  std::size_t pieces = 1;            // for MakeArg
  ArgStep step = nullptr;            // for MakeArg of fp32
};

/// For MakeArgAmong.
struct AmongArgs {
  ColumnArgs columns;
  const std::int64_t* of_pieces = nullptr;
};

constexpr std::size_t kColumns = 64;
constexpr std::size_t kStepColumns = 256;  // of tiles that are compared by an ArgStep
constexpr std::size_t kElementsPerCheck = 2048;
constexpr double kNsPerElement = 2.0;
constexpr double kNsPerLongElement = 12;  // with a call of the C library
constexpr double kNsPerTask = 40;
constexpr std::size_t kMostStepRows = std::numeric_limits<std::int32_t>::max();
constexpr double kNsPerStepElement = 0.15, kNsPerShortLine = 60;

template <typename T>
using Sum = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;

/// The type of a fold's state for elements of W: 64 bits for integers, which hold every count;
/// fp64 for a root of integers; W for floats.
template <typename W, FoldOp kOp>
using Kept = std::conditional_t<
    !std::is_integral_v<W> || std::is_same_v<W, bool>, W,
    std::conditional_t<kOp == FoldOp::kL2, double,
                       std::conditional_t<std::is_signed_v<W>, std::int64_t, std::uint64_t>>>;

template <typename W>
bool IsNan(W x) {
  if constexpr (std::is_floating_point_v<W>) return std::isnan(x);
  return false;
}

/// State and steps of a fold, computed in W.
template <typename W, FoldOp kOp>
struct Fold {
  W value = Start();
  W scale = 0;  // for kLogSumExp: sum of exp(x - value)

  static W Start() {
    using Limits = std::numeric_limits<W>;
    if constexpr (kOp == FoldOp::kProd) return 1;
    if constexpr (kOp == FoldOp::kMax || kOp == FoldOp::kLogSumExp) {
      return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    }
    if constexpr (kOp == FoldOp::kMin) {
      return Limits::has_infinity ? Limits::infinity() : Limits::max();
    }
    return 0;
  }

  static W Plus(W a, W b) {
    return static_cast<W>(static_cast<Sum<W>>(a) + static_cast<Sum<W>>(b));
  }
  static W Times(W a, W b) {
    return static_cast<W>(static_cast<Sum<W>>(a) * static_cast<Sum<W>>(b));
  }
  void Add(W x) {
    if constexpr (kOp == FoldOp::kProd) {
      value = Times(value, x);
    } else if constexpr (kOp == FoldOp::kMax) {
      if (x > value || IsNan(x)) value = x;
    } else if constexpr (kOp == FoldOp::kMin) {
      if (x < value || IsNan(x)) value = x;
    } else if constexpr (kOp == FoldOp::kL1) {
      value = Plus(value, x < 0 ? Plus(0, static_cast<W>(Sum<W>{0} - static_cast<Sum<W>>(x))) : x);
    } else if constexpr (kOp == FoldOp::kL2 || kOp == FoldOp::kSumSquare) {
      value = Plus(value, Times(x, x));
    } else if constexpr (kOp == FoldOp::kLogSumExp) {
      AddExp(x);
    } else {
      value = Plus(value, x);
    }
  }

  /// Keeps the sum of exp(x) relative to the greatest element so far.
  void AddExp(W x) {
    if (x <= value) {
      scale += std::isinf(x) ? W{0} : std::exp(x - value);
    } else {
      scale = std::isinf(value) ? W{1} : scale * std::exp(value - x) + 1;
      value = x;
    }
  }

  W Result(std::size_t count) const {
    if constexpr (kOp == FoldOp::kMean) return static_cast<W>(value / static_cast<W>(count));
    if constexpr (kOp == FoldOp::kL2) return static_cast<W>(std::sqrt(value));
    if constexpr (kOp == FoldOp::kLogSumExp) return value + std::log(scale);
    return value;
  }
};

struct Tile {
  std::size_t outer;
  std::size_t first;   // element of x
  std::size_t result;  // element of y
  std::size_t columns;
};

Tile TileOf(const ColumnArgs& args, std::size_t task) {
  const std::size_t outer = task / args.tiles_per_outer;
  const std::size_t column = task % args.tiles_per_outer * args.columns;
  return {outer, outer * args.axis * args.inner + column, outer * args.inner + column,
          std::min(args.columns, args.inner - column)};
}

/// Walks a tile row by row. False: the block must leave; only checked in blocks that may leave.
template <typename Visit>
bool ForRows(const ColumnArgs& args, const Tile& tile, BlockContext* ctx, Visit&& visit) {
  std::size_t since_check = 0;
  for (std::size_t i = 0; i < args.axis; ++i) {
    visit(i, tile.first + i * args.inner);
    since_check += tile.columns;
    if (ctx == nullptr || since_check < kElementsPerCheck) continue;
    since_check = 0;
    if (ctx->ShouldLeave()) return false;
  }
  return true;
}

/// Runs the tiles of a block. A block of one tile may leave while it reads. A block of several
/// tiles writes the first one before it reads the last one, so it checks its guards only at the
/// start.
template <typename Work>
bool ForTiles(const ColumnArgs& args, std::uint32_t block, BlockContext& ctx, Work&& work) {
  if (ctx.ShouldLeave()) return false;
  const Range tasks = Share(args.tasks, args.blocks, block);
  BlockContext* const may_leave = tasks.size() == 1 ? &ctx : nullptr;
  for (std::size_t task = tasks.begin; task < tasks.end; ++task) {
    if (!work(TileOf(args, task), may_leave)) return false;
  }
  return true;
}

template <typename T, FoldOp kOp>
bool FoldBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  using W = Kept<decltype(Load(T())), kOp>;
  const auto& args = *static_cast<const ColumnArgs*>(raw);
  const T* const x = reinterpret_cast<const T*>(args.x);
  T* const y = reinterpret_cast<T*>(args.y);
  return ForTiles(args, block, ctx, [&](const Tile& tile, BlockContext* may_leave) {
    Fold<W, kOp> folds[kColumns];
    const bool stayed = ForRows(args, tile, may_leave, [&](std::size_t, std::size_t at) {
      for (std::size_t c = 0; c < tile.columns; ++c) {
        folds[c].Add(static_cast<W>(Load(x[at + c])));
      }
    });
    if (!stayed) return false;
    for (std::size_t c = 0; c < tile.columns; ++c) {
      const W result = folds[c].Result(args.axis);
      if constexpr (std::is_integral_v<T> && std::is_floating_point_v<W>) {
        y[tile.result + c] = ConvertElement<T>(result);
      } else {
        y[tile.result + c] = Store<T>(result);
      }
    }
    return true;
  });
}

/// A NaN is better than every number, as in numpy.
template <typename W>
bool IsBetter(const ColumnArgs& args, W value, W best) {
  if (IsNan(value) || IsNan(best)) return IsNan(value) && (args.last || !IsNan(best));
  return (args.least ? value < best : value > best) || (args.last && value == best);
}

template <typename T>
bool ArgBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  using W = Wide<T>;
  const auto& args = *static_cast<const ColumnArgs*>(raw);
  const T* const x = reinterpret_cast<const T*>(args.x);
  auto* const y = reinterpret_cast<std::int64_t*>(args.y);
  return ForTiles(args, block, ctx, [&](const Tile& tile, BlockContext* may_leave) {
    W best[kColumns];
    std::int64_t index[kColumns];
    const bool stayed = ForRows(args, tile, may_leave, [&](std::size_t i, std::size_t at) {
      for (std::size_t c = 0; c < tile.columns; ++c) {
        const W value = Load(x[at + c]);
        if (i != 0 && !IsBetter(args, value, best[c])) continue;
        best[c] = value;
        index[c] = static_cast<std::int64_t>(i);
      }
    });
    if (!stayed) return false;
    std::copy(index, index + tile.columns, y + tile.result);
    return true;
  });
}

/// The best elements of up to kCount columns, so far.
template <std::size_t kCount>
struct Best {
  float value[kCount];
  std::int32_t row[kCount] = {};

  explicit Best(bool least) {
    const float worst = std::numeric_limits<float>::infinity();
    std::fill_n(value, kCount, least ? worst : -worst);
  }
};

/// Index of the best element of a line, which is compared as rows of kColumns columns.
std::int64_t BestOfLine(const ColumnArgs& args, const Best<kColumns>& best) {
  const auto place = [&](std::size_t c) {
    return static_cast<std::int64_t>(best.row[c]) * std::int64_t{kColumns} +
           static_cast<std::int64_t>(c);
  };
  std::size_t chosen = 0;
  for (std::size_t c = 1; c < std::min(kColumns, args.axis); ++c) {
    const float value = best.value[c], other = best.value[chosen];
    const bool equal = value == other || (IsNan(value) && IsNan(other));
    const bool later = place(c) > place(chosen);
    if (equal ? later == args.last : IsBetter(args, value, other)) chosen = c;
  }
  return place(chosen);
}

/// ArgBody of fp32, by an ArgStep.
bool ArgStepBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  const auto& args = *static_cast<const ColumnArgs*>(raw);
  const auto* const x = reinterpret_cast<const float*>(args.x);
  auto* const y = reinterpret_cast<std::int64_t*>(args.y);
  return ForTiles(args, block, ctx, [&](const Tile& tile, BlockContext* may_leave) {
    Best<kStepColumns> best(args.least);
    const bool stayed = ForRows(args, tile, may_leave, [&](std::size_t i, std::size_t at) {
      args.step(x + at, tile.columns, static_cast<std::int32_t>(i), best.value, best.row);
    });
    if (!stayed) return false;
    std::copy(best.row, best.row + tile.columns, y + tile.result);
    return true;
  });
}

/// The same for lines that lie densely.
bool ArgLineBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  const auto& args = *static_cast<const ColumnArgs*>(raw);
  const auto* const x = reinterpret_cast<const float*>(args.x);
  auto* const y = reinterpret_cast<std::int64_t*>(args.y);
  return ForTiles(args, block, ctx, [&](const Tile& tile, BlockContext* may_leave) {
    Best<kColumns> best(args.least);
    for (std::size_t at = 0; at < args.axis; at += kColumns) {
      if (may_leave != nullptr && at % kElementsPerCheck == 0 && may_leave->ShouldLeave()) {
        return false;
      }
      args.step(x + tile.first + at, std::min(kColumns, args.axis - at),
                static_cast<std::int32_t>(at / kColumns), best.value, best.row);
    }
    y[tile.result] = BestOfLine(args, best);
    return true;
  });
}

/// The best of the pieces' best elements. A block has up to kColumns results.
template <typename T>
bool ArgAmongBody(const void* raw, std::uint32_t block, BlockContext& ctx) {
  using W = Wide<T>;
  const auto& args = *static_cast<const AmongArgs*>(raw);
  if (ctx.ShouldLeave()) return false;
  const Tile tile = TileOf(args.columns, block);
  const T* const x = reinterpret_cast<const T*>(args.columns.x);
  const std::size_t pieces = args.columns.pieces, inner = args.columns.inner;
  const auto piece_rows = static_cast<std::int64_t>(args.columns.axis / pieces);
  std::int64_t index[kColumns];
  W best[kColumns];
  for (std::size_t piece = 0; piece < pieces; ++piece) {
    if (piece % (kElementsPerCheck / kColumns) == 0 && ctx.ShouldLeave()) return false;
    for (std::size_t c = 0; c < tile.columns; ++c) {
      const std::size_t column = tile.result - tile.outer * inner + c;
      const std::int64_t row = static_cast<std::int64_t>(piece) * piece_rows +
                               args.of_pieces[(tile.outer * pieces + piece) * inner + column];
      const W value = Load(x[tile.first + c + static_cast<std::size_t>(row) * inner]);
      if (piece != 0 && !IsBetter(args.columns, value, best[c])) continue;
      best[c] = value;
      index[c] = row;
    }
  }
  std::copy(index, index + tile.columns,
            reinterpret_cast<std::int64_t*>(args.columns.y) + tile.result);
  return true;
}

template <typename T>
Body PickFold(FoldOp op) {
  switch (op) {
    case FoldOp::kSum:
      return &FoldBody<T, FoldOp::kSum>;
    case FoldOp::kProd:
      return &FoldBody<T, FoldOp::kProd>;
    case FoldOp::kMax:
      return &FoldBody<T, FoldOp::kMax>;
    case FoldOp::kMin:
      return &FoldBody<T, FoldOp::kMin>;
    case FoldOp::kMean:
      return &FoldBody<T, FoldOp::kMean>;
    case FoldOp::kL1:
      return &FoldBody<T, FoldOp::kL1>;
    case FoldOp::kL2:
      return &FoldBody<T, FoldOp::kL2>;
    case FoldOp::kSumSquare:
      return &FoldBody<T, FoldOp::kSumSquare>;
    case FoldOp::kLogSumExp:
      if constexpr (!std::is_integral_v<T>) return &FoldBody<T, FoldOp::kLogSumExp>;
      return nullptr;
  }
  return nullptr;
}

/// Null if the op is not defined on the type. Bools have only a maximum and a minimum.
Body FindFold(FoldOp op, DataType type) {
  if (type == DataType::kString) return nullptr;
  return WithElementType(type, [&]<typename T>(std::type_identity<T>) -> Body {
    if constexpr (std::is_same_v<T, bool>) {
      if (op == FoldOp::kMax) return &FoldBody<Flag, FoldOp::kMax>;
      if (op == FoldOp::kMin) return &FoldBody<Flag, FoldOp::kMin>;
      return nullptr;
    } else {
      return PickFold<T>(op);
    }
  });
}

Body FindArg(DataType type, bool among) {
  if (type == DataType::kString) return nullptr;
  return WithElementType(type, [&]<typename T>(std::type_identity<T>) -> Body {
    using Element = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;
    return among ? &ArgAmongBody<Element> : &ArgBody<Element>;
  });
}

Result<ColumnArgs> Layout(const char* name, const AxisSpec& spec, double ns_per_element,
                          std::size_t columns = kColumns, double ns_per_task = kNsPerTask) {
  LAGOON_RETURN_IF_ERROR(CheckElements(
      name, "x", {{"outer", spec.outer}, {"axis", spec.axis}, {"inner", spec.inner}}));
  ColumnArgs args;
  args.axis = spec.axis;
  args.inner = spec.inner;
  args.columns = columns;
  args.tiles_per_outer = CeilDivide(spec.inner, columns);
  args.tasks = spec.outer * args.tiles_per_outer;
  const double elements =
      static_cast<double>(spec.outer * spec.axis) * static_cast<double>(spec.inner);
  args.blocks = BlocksFor(elements * ns_per_element + ns_per_task * static_cast<double>(args.tasks),
                          args.tasks);
  return args;
}

Kernel ToKernel(const char* name, Body body, const ColumnArgs& args, const AxisSpec& spec) {
  Kernel kernel;
  kernel.name = name;
  kernel.body = body;
  kernel.blocks = static_cast<std::uint32_t>(args.blocks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(ColumnArgs, x)};
  kernel.outputs = {offsetof(ColumnArgs, y)};
  const auto elements = static_cast<double>(spec.outer * spec.axis * spec.inner);
  kernel.flops = elements;
  kernel.bytes_moved = elements * static_cast<double>(SizeOf(spec.type));
  return kernel;
}

tl::unexpected<Error> NotOn(const char* name, DataType type) {
  return Fail(ErrorCode::kUnimplemented, fmt::format("{}: not defined on {}", name, OipName(type)));
}

}  // namespace

Result<Kernel> MakeFold(const AxisSpec& spec, FoldOp op) {
  static constexpr char kName[] = "fold";
  const Body body = FindFold(op, spec.type);
  if (body == nullptr) return NotOn(kName, spec.type);
  const double ns = op == FoldOp::kLogSumExp ? kNsPerLongElement : kNsPerElement;
  LAGOON_ASSIGN_OR_RETURN(const ColumnArgs args, Layout(kName, spec, ns));
  return ToKernel(kName, body, args, spec);
}

Result<Kernel> MakeArg(const ArgSpec& spec) {
  static constexpr char kName[] = "arg";
  Body body = FindArg(spec.axis.type, /*among=*/false);
  if (body == nullptr) return NotOn(kName, spec.axis.type);
  const bool steps = spec.axis.type == DataType::kFloat32 && spec.axis.axis <= kMostStepRows;
  LAGOON_ASSIGN_OR_RETURN(ColumnArgs args,
                          steps ? Layout(kName, spec.axis, kNsPerStepElement, kStepColumns,
                                         spec.axis.inner == 1 ? kNsPerShortLine : kNsPerTask)
                                : Layout(kName, spec.axis, kNsPerElement));
  if (steps) {
    args.step = FindArgStep(spec.least, spec.last);
    body = spec.axis.inner == 1 ? &ArgLineBody : &ArgStepBody;
  }
  args.least = spec.least;
  args.last = spec.last;
  args.pieces = spec.pieces;
  return ToKernel(kName, body, args, spec.axis);
}

Result<Kernel> MakeArgAmong(const ArgSpec& spec) {
  static constexpr char kName[] = "arg_among";
  const Body body = FindArg(spec.axis.type, /*among=*/true);
  if (body == nullptr) return NotOn(kName, spec.axis.type);
  AmongArgs args;
  LAGOON_ASSIGN_OR_RETURN(args.columns, Layout(kName, spec.axis, kNsPerElement));
  if (spec.pieces == 0 || spec.axis.axis % spec.pieces != 0) {
    return Invalid(
        kName, fmt::format("{} pieces of {} elements are not equal", spec.pieces, spec.axis.axis));
  }
  args.columns.least = spec.least;
  args.columns.last = spec.last;
  args.columns.pieces = spec.pieces;
  Kernel kernel;
  kernel.name = kName;
  kernel.body = body;
  kernel.blocks = static_cast<std::uint32_t>(args.columns.tasks);
  kernel.args = ArgsImage(args);
  kernel.inputs = {offsetof(AmongArgs, columns.x), offsetof(AmongArgs, of_pieces)};
  kernel.outputs = {offsetof(AmongArgs, columns.y)};
  kernel.flops = static_cast<double>(spec.axis.outer * spec.pieces * spec.axis.inner);
  kernel.bytes_moved =
      kernel.flops * static_cast<double>(SizeOf(spec.axis.type) + sizeof(std::int64_t));
  return kernel;
}

}  // namespace lagoon
