// Reductions, scans and softmax: ops that combine elements along axes.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/check.h"
#include "kernels/ops.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

Result<std::size_t> AxisOf(std::int64_t axis, const Dims& dims) {
  if (axis < 0 || axis >= static_cast<std::int64_t>(dims.size())) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("axis {} is not one of {}", axis, ToString(dims)));
  }
  return static_cast<std::size_t>(axis);
}

FoldOp FoldOpOf(const Node& node) {
  constexpr std::pair<std::string_view, FoldOp> kOps[] = {
      {"ReduceSum", FoldOp::kSum},     {"ReduceMean", FoldOp::kMean},
      {"ReduceMax", FoldOp::kMax},     {"ReduceMin", FoldOp::kMin},
      {"ReduceProd", FoldOp::kProd},   {"ReduceL1", FoldOp::kL1},
      {"ReduceL2", FoldOp::kL2},       {"ReduceSumSquare", FoldOp::kSumSquare},
      {"ReduceLogSum", FoldOp::kSum},  {"ReduceLogSumExp", FoldOp::kLogSumExp},
      {"GlobalMaxPool", FoldOp::kMax}, {"GlobalAveragePool", FoldOp::kMean},
  };
  const auto* const found = std::find_if(std::begin(kOps), std::end(kOps),
                                         [&](const auto& row) { return row.first == node.op; });
  LAGOON_CHECK(found != std::end(kOps));
  return found->second;
}

/// The op of the kernels after the first one, which read the results of the first.
FoldOp Continued(FoldOp op) { return op == FoldOp::kSumSquare ? FoldOp::kSum : op; }

/// The op of the body with vectors, if that body covers `op`.
std::optional<ReduceOp> VectorOp(FoldOp op) {
  switch (op) {
    case FoldOp::kSum:
      return ReduceOp::kSum;
    case FoldOp::kMean:
      return ReduceOp::kMean;
    case FoldOp::kMax:
      return ReduceOp::kMax;
    case FoldOp::kMin:
      return ReduceOp::kMin;
    default:
      return std::nullopt;
  }
}

Result<Kernel> MakeFoldKernel(const KernelMaker& make, FoldOp op, const AxisSplit& split,
                              DataType type) {
  const std::optional<ReduceOp> vector = VectorOp(op);
  if (vector && type == DataType::kFloat32) {
    return make.Reduce({*vector, split.outer, split.axis, split.inner});
  }
  return make.Fold({split.outer, split.axis, split.inner, type}, op);
}

/// Number of equal pieces that a long line of `axis` elements is cut into, so that its blocks are
/// short: a block that real-time work revokes begins anew. 1: the line is short, or has no such
/// number of equal pieces.
std::size_t EqualPieces(std::size_t axis) {
  constexpr std::size_t kPiece = 1 << 16, kMostPieces = 1 << 12;
  if (axis < 4 * kPiece) return 1;
  for (std::size_t pieces = axis / kPiece; pieces <= std::min(axis, kMostPieces); ++pieces) {
    if (axis % pieces == 0) return pieces;
  }
  return 1;
}

struct FoldRun {
  FoldOp op{};
  AxisSplit split;  // of x
  Tensor x, y;
};

/// y = the fold of x, in two kernels if the line is long.
Status EmitFoldRun(ProgramBuilder& builder, const std::string& name, const FoldRun& run) {
  const DataType type = run.x.type;
  const auto emit = [&](FoldOp op, const AxisSplit& split, const Tensor& from, const Tensor& to) {
    return builder.Emit(name, [&](auto& make) { return MakeFoldKernel(make, op, split, type); },
                        {builder.All(from)}, {builder.All(to)});
  };
  const auto [outer, axis, inner] = run.split;
  // In other types the pieces' results would be rounded, and a mean truncated.
  const bool exact = type == DataType::kFloat32 || type == DataType::kFloat64;
  const std::size_t pieces = exact ? EqualPieces(axis) : 1;
  if (pieces == 1) return emit(run.op, run.split, run.x, run.y);
  const Dims dims{static_cast<std::int64_t>(outer), static_cast<std::int64_t>(pieces),
                  static_cast<std::int64_t>(inner)};
  const Tensor parts = builder.NewTensor(name + ":pieces", dims, Layout::kPlain, type);
  LAGOON_RETURN_IF_ERROR(emit(run.op, {outer * pieces, axis / pieces, inner}, run.x, parts));
  return emit(Continued(run.op), {outer, pieces, inner}, parts, run.y);
}

/// Runs of neighbouring physical axes among the reduced ones, without axes of size one.
std::vector<std::pair<std::size_t, std::size_t>> RunsOf(std::vector<std::size_t> physical) {
  std::sort(physical.begin(), physical.end());
  std::vector<std::pair<std::size_t, std::size_t>> runs;
  for (const std::size_t axis : physical) {
    if (!runs.empty() && runs.back().second + 1 == axis) {
      runs.back().second = axis;
    } else {
      runs.emplace_back(axis, axis);
    }
  }
  return runs;
}

/// Moves the reduced axes of x to the end and reduces all at once. Intermediate results between two
/// kernels would be rounded to x's type, which is precise enough only for fp32 and fp64.
Result<Tensor> FoldAtOnce(ProgramBuilder& builder, const std::string& name, FoldOp op,
                          const Tensor& x, const std::vector<std::size_t>& axes) {
  std::vector<std::int64_t> order;
  Dims kept = x.dims;
  for (const std::size_t axis : axes) kept[axis] = 1;
  const auto reduced = [&](std::size_t axis) {
    return std::find(axes.begin(), axes.end(), axis) != axes.end();
  };
  for (std::size_t i = 0; i < x.dims.size(); ++i) {
    if (!reduced(i)) order.push_back(static_cast<std::int64_t>(i));
  }
  for (const std::size_t axis : axes) order.push_back(static_cast<std::int64_t>(axis));
  LAGOON_ASSIGN_OR_RETURN(const Tensor moved, builder.Transpose(x, order, Layout::kPlain));
  const AxisSplit split = SplitAt(moved.dims, x.dims.size() - axes.size(), x.dims.size() - 1);
  const Tensor y = builder.NewTensor(name, kept, Layout::kPlain, x.type);
  LAGOON_RETURN_IF_ERROR(
      builder.Emit(name, [&](auto& make) { return MakeFoldKernel(make, op, split, x.type); },
                   {builder.All(moved)}, {builder.All(y)}));
  return y;
}

}  // namespace

/// Emits one kernel for each run of axes that are neighbours in memory. (A mean of means over equal
/// counts is the mean.)
Result<Tensor> EmitFold(ProgramBuilder& builder, const std::string& name, FoldOp op, Tensor x,
                        const std::vector<std::size_t>& axes) {
  std::vector<std::size_t> physical;
  for (const std::size_t axis : axes) {
    physical.push_back(PhysicalAxis(x.dims.size(), x.layout, axis));
  }
  const std::vector<std::int64_t> order = PhysicalOrder(x.dims.size(), x.layout);
  bool changes = op == FoldOp::kL1 || op == FoldOp::kL2 || op == FoldOp::kSumSquare;
  std::vector<std::pair<std::size_t, std::size_t>> runs = RunsOf(std::move(physical));
  const bool exact = x.type == DataType::kFloat32 || x.type == DataType::kFloat64;
  if (runs.size() > 1 && !exact) return FoldAtOnce(builder, name, op, x, axes);
  // Even a single element changes, to its absolute value or its square.
  if (changes && runs.empty()) runs.emplace_back(1, 0);
  for (const auto& [first, last] : runs) {
    AxisSplit split{static_cast<std::size_t>(ElementCount(x.dims)), 1, 1};
    if (first <= last) split = SplitAt(x.physical(), first, last);
    if (split.axis == 1 && !changes) continue;
    changes = false;
    Dims dims = x.dims;
    for (std::size_t i = first; i <= last; ++i) dims[static_cast<std::size_t>(order[i])] = 1;
    const Tensor y = builder.NewTensor(name, dims, x.layout, x.type);
    LAGOON_RETURN_IF_ERROR(EmitFoldRun(builder, name, {op, split, x, y}));
    x = y;
    op = Continued(op);
  }
  return x;
}

Result<Tensor> EmitReduce(ProgramBuilder& builder, const std::string& name, ReduceOp op, Tensor x,
                          const std::vector<std::size_t>& axes) {
  constexpr std::pair<ReduceOp, FoldOp> kOps[] = {{ReduceOp::kSum, FoldOp::kSum},
                                                  {ReduceOp::kMean, FoldOp::kMean},
                                                  {ReduceOp::kMax, FoldOp::kMax},
                                                  {ReduceOp::kMin, FoldOp::kMin}};
  for (const auto& [known, fold] : kOps) {
    if (known == op) return EmitFold(builder, name, fold, std::move(x), axes);
  }
  CheckFailed("a known ReduceOp", __FILE__, __LINE__);
}

namespace {

Status LowerGlobalPool(ProgramBuilder& builder, const Node& node) {
  const Dims& dims = builder.dims(node.inputs[0]);
  if (dims.size() < 3) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("input {} has no axes behind its channels", ToString(dims)));
  }
  std::vector<std::size_t> axes;
  for (std::size_t axis = 2; axis < dims.size(); ++axis) axes.push_back(axis);
  const Layout layout = builder.CheapestLayout(node.inputs);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitFold(builder, node.name, FoldOpOf(node), x, axes));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerReduce(ProgramBuilder& builder, const Node& node) {
  const Dims in_dims = builder.dims(node.inputs[0]);
  std::vector<std::size_t> axes;
  for (const std::int64_t axis : node.Ints("axes", {})) {
    LAGOON_ASSIGN_OR_RETURN(axes.emplace_back(), AxisOf(axis, in_dims));
  }
  const Layout layout = builder.CheapestLayout(node.inputs);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, EmitFold(builder, node.name, FoldOpOf(node), x, axes));
  LAGOON_ASSIGN_OR_RETURN(y, builder.Reshape(y, builder.dims(node.outputs[0])));
  if (node.op == "ReduceLogSum") {
    LAGOON_ASSIGN_OR_RETURN(y, EmitUnary(builder, node.name, UnaryOp::kLog, y));
  }
  builder.Define(node.outputs[0], y);
  return {};
}

/// Input 0 in plain layout, split at axis `axis`.
struct Line {
  Tensor x;
  AxisSpec axis;
};

Result<Line> UseLine(ProgramBuilder& builder, const Node& node) {
  Line line;
  LAGOON_ASSIGN_OR_RETURN(line.x, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const std::size_t axis, AxisOf(node.Int("axis", 0), line.x.dims));
  const AxisSplit split = SplitAt(line.x.dims, axis, axis);
  line.axis = {split.outer, split.axis, split.inner, line.x.type};
  return line;
}

Result<Tensor> EmitArg(ProgramBuilder& builder, const Node& node, const Line& line,
                       const Dims& dims) {
  const Tensor y = builder.NewTensor(node.name, dims, Layout::kPlain, DataType::kInt64);
  ArgSpec spec{line.axis, node.op == "ArgMin", node.Int("select_last_index", 0) != 0,
               EqualPieces(line.axis.axis)};
  const ArgSpec whole = spec;
  spec.axis.outer *= spec.pieces;
  spec.axis.axis /= spec.pieces;
  const Dims piece_dims{static_cast<std::int64_t>(spec.axis.outer),
                        static_cast<std::int64_t>(spec.axis.inner)};
  const Tensor best = spec.pieces == 1 ? y
                                       : builder.NewTensor(node.name + ":pieces", piece_dims,
                                                           Layout::kPlain, DataType::kInt64);
  LAGOON_RETURN_IF_ERROR(builder.Emit(node.name, [&](auto& make) { return make.Arg(spec); },
                                      {builder.All(line.x)}, {builder.All(best)}));
  if (spec.pieces == 1) return y;
  LAGOON_RETURN_IF_ERROR(builder.Emit(node.name, [&](auto& make) { return make.ArgAmong(whole); },
                                      {builder.All(line.x), builder.All(best)}, {builder.All(y)}));
  return y;
}

Status LowerArg(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Line line, UseLine(builder, node));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y,
                          EmitArg(builder, node, line, builder.dims(node.outputs[0])));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerHardmax(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Line line, UseLine(builder, node));
  const auto axis = static_cast<std::size_t>(node.Int("axis", 0));
  Dims one = line.x.dims;
  one[axis] = 1;
  LAGOON_ASSIGN_OR_RETURN(const Tensor best, EmitArg(builder, node, line, one));
  LAGOON_RETURN_IF_ERROR(CheckTable({line.x.dims[axis]}));
  std::vector<std::int64_t> places(line.axis.axis);
  for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::int64_t>(i);
  Dims along(line.x.dims.size(), 1);
  along[axis] = static_cast<std::int64_t>(places.size());
  const Tensor place = ConstantTensor(builder, node.name, DataType::kInt64, along, places);
  LAGOON_ASSIGN_OR_RETURN(Tensor y, EmitBinary(builder, node.name, BinaryOp::kEqual, best, place));
  LAGOON_ASSIGN_OR_RETURN(y, EmitCast(builder, node.name, y, line.x.type));
  builder.Define(node.outputs[0], y);
  return {};
}

// CumSum and CumProd.
Status LowerScan(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Line line, UseLine(builder, node));
  const Tensor y = builder.NewTensor(node.name, line.x.dims, Layout::kPlain, line.x.type);
  builder.Define(node.outputs[0], y);
  ScanSpec spec{line.axis, node.Int("exclusive", 0) != 0, node.Int("reverse", 0) != 0};
  spec.product = node.op == "CumProd";
  std::vector<Operand> inputs{builder.All(line.x)};
  constexpr std::size_t kMostPiecesAlone = 16;  // from here on a second kernel costs less
  if (ScanPieces(spec) > kMostPiecesAlone) {
    spec.sums_given = true;
    const Dims bytes{static_cast<std::int64_t>(ScanSumsBytes(spec))};
    const Tensor sums =
        builder.NewTensor(node.name + ":sums", bytes, Layout::kPlain, DataType::kUInt8);
    LAGOON_RETURN_IF_ERROR(builder.Emit(node.name, [&](auto& make) { return make.ScanSums(spec); },
                                        inputs, {builder.All(sums)}));
    inputs.push_back(builder.All(sums));
  }
  return builder.Emit(node.name, [&](auto& make) { return make.Scan(spec); }, std::move(inputs),
                      {builder.All(y)});
}

Status LowerTopK(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Line line, UseLine(builder, node));
  const Dims dims = builder.dims(node.outputs[0]);
  const Tensor values = builder.NewTensor(node.name, dims, Layout::kPlain, line.x.type);
  const Tensor indices =
      builder.NewTensor(node.name + ".indices", dims, Layout::kPlain, DataType::kInt64);
  if (node.outputs[0] != kNoValue) builder.Define(node.outputs[0], values);
  if (node.outputs.size() > 1 && node.outputs[1] != kNoValue) {
    builder.Define(node.outputs[1], indices);
  }
  TopKSpec spec{line.axis, static_cast<std::size_t>(node.Int("k", 1)), node.Int("largest", 1) != 0};
  std::vector<Operand> inputs{builder.All(line.x)};
  std::vector<Operand> outputs{builder.All(values), builder.All(indices)};
  if (node.inputs.size() > 1) {
    spec.k = spec.axis.axis;
    spec.computed_k = true;
    spec.dims = dims;
    spec.dims_axis = static_cast<std::size_t>(node.Int("axis", 0));
    LAGOON_ASSIGN_OR_RETURN(const Tensor k, builder.Use(node.inputs[1], Layout::kPlain));
    const ValueId id = builder.graph().value(node.outputs[0]).sizes;
    const Tensor sizes =
        builder.NewTensor(node.name + ":sizes", builder.dims(id), Layout::kPlain, DataType::kInt64);
    builder.Define(id, sizes);
    inputs.push_back(builder.All(k));
    outputs.push_back(builder.All(sizes));
  }
  return builder.Emit(
      node.name, [&](auto& make) { return make.TopK(spec); }, std::move(inputs),
      std::move(outputs));
}

/// Every block of the kernel of a long line reads the whole line for its maximum and its sum, so
/// that the time grows with the square of the length.
constexpr std::size_t kLongestSoftmax = 1 << 15;

/// The same from kernels that read the line once each.
Status LowerLongSoftmax(ProgramBuilder& builder, const Node& node, const Tensor& x,
                        std::size_t axis) {
  const std::string& name = node.name;
  LAGOON_ASSIGN_OR_RETURN(const Tensor max, EmitFold(builder, name, FoldOp::kMax, x, {axis}));
  LAGOON_ASSIGN_OR_RETURN(const Tensor shifted, EmitBinary(builder, name, BinaryOp::kSub, x, max));
  LAGOON_ASSIGN_OR_RETURN(const Tensor powers, EmitUnary(builder, name, UnaryOp::kExp, shifted));
  LAGOON_ASSIGN_OR_RETURN(Tensor sum, EmitFold(builder, name, FoldOp::kSum, powers, {axis}));
  const bool log = node.op == "LogSoftmax";
  if (log) {
    LAGOON_ASSIGN_OR_RETURN(sum, EmitUnary(builder, name, UnaryOp::kLog, sum));
  }
  LAGOON_ASSIGN_OR_RETURN(const Tensor y,
                          EmitBinary(builder, name, log ? BinaryOp::kSub : BinaryOp::kDiv,
                                     log ? shifted : powers, sum));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerSoftmax(ProgramBuilder& builder, const Node& node) {
  const Dims& dims = builder.dims(node.inputs[0]);
  LAGOON_ASSIGN_OR_RETURN(const std::size_t axis, AxisOf(node.Int("axis", -1), dims));
  const Layout layout = builder.CheapestLayout(node.inputs);
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  const std::size_t at = PhysicalAxis(x.dims.size(), layout, axis);
  const AxisSplit split = SplitAt(x.physical(), at, at);
  if (split.axis > kLongestSoftmax) return LowerLongSoftmax(builder, node, x, axis);
  const Tensor y = builder.NewTensor(node.name, x.dims, layout);
  builder.Define(node.outputs[0], y);
  return builder.Emit(
      node.name,
      [&](auto& make) {
        return make.Softmax({split.outer, split.axis, split.inner, node.op == "LogSoftmax"});
      },
      {builder.All(x)}, {builder.All(y)});
}

constexpr Lowering kReduceLowerings[] = {
    {"GlobalAveragePool", LowerGlobalPool, Lowering::kFloat},
    {"GlobalMaxPool", LowerGlobalPool, Lowering::kFloat},
    {"ReduceMean", LowerReduce, Lowering::kWide},
    {"ReduceSum", LowerReduce, Lowering::kWide},
    {"ReduceMax", LowerReduce, Lowering::kWide},
    {"ReduceMin", LowerReduce, Lowering::kWide},
    {"ReduceProd", LowerReduce, Lowering::kWide},
    {"ReduceL1", LowerReduce, Lowering::kWide},
    {"ReduceL2", LowerReduce, Lowering::kWide},
    {"ReduceLogSum", LowerReduce, Lowering::kWide},
    {"ReduceLogSumExp", LowerReduce, Lowering::kWide},
    {"ReduceSumSquare", LowerReduce, Lowering::kWide},
    {"ArgMax", LowerArg},
    {"ArgMin", LowerArg},
    {"Hardmax", LowerHardmax},
    {"CumSum", LowerScan},
    {"CumProd", LowerScan},
    {"TopK", LowerTopK},
    {"Softmax", LowerSoftmax, Lowering::kFloat},
    {"LogSoftmax", LowerSoftmax, Lowering::kFloat},
};

}  // namespace

std::span<const Lowering> ReduceLowerings() { return kReduceLowerings; }

}  // namespace lagoon
