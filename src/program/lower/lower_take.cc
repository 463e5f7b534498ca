// Ops that place elements by an index per axis: Pad, Tile, Resize to the nearest pixel, ...

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

using Map = std::vector<std::int64_t>;

/// The element of an axis of `size` that position `at` mirrors to. The ends are not repeated.
std::int64_t Reflect(std::int64_t at, std::int64_t size) {
  if (size == 1) return 0;
  const std::int64_t period = 2 * (size - 1);
  const std::int64_t inside = (at % period + period) % period;
  return inside < size ? inside : period - inside;
}

std::int64_t Source(const std::string& mode, std::int64_t at, std::int64_t size) {
  if (at >= 0 && at < size) return at;
  if (mode == "constant") return -1;
  if (mode == "edge") return std::clamp<std::int64_t>(at, 0, size - 1);
  if (mode == "wrap") return (at % size + size) % size;
  return Reflect(at, size);
}

Map IdentityMap(std::int64_t size) {
  Map map(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < map.size(); ++i) map[i] = static_cast<std::int64_t>(i);
  return map;
}

Status LowerTake(ProgramBuilder& builder, const Node& node, std::vector<Map> maps,
                 std::uint64_t fill = 0) {
  const Layout layout = builder.CheapestLayout(std::span(node.inputs).first(1));
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], layout));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitTake(builder, node.name, x, std::move(maps), fill));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerPad(ProgramBuilder& builder, const Node& node) {
  const Dims& x = builder.dims(node.inputs[0]);
  const Dims& y = builder.dims(node.outputs[0]);
  const std::vector<std::int64_t> pads = node.Ints("pads", {});
  if (pads.size() != 2 * x.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'pads' has {} values for {}", pads.size(), ToString(x)));
  }
  LAGOON_RETURN_IF_ERROR(CheckTable(y));
  const std::string mode = node.String("mode", "constant");
  std::vector<Map> maps;
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    Map& map = maps.emplace_back();
    for (std::int64_t i = 0; i < y[axis]; ++i) map.push_back(Source(mode, i - pads[axis], x[axis]));
  }
  std::uint64_t fill = 0;
  if (const auto value = node.attributes.find("value"); value != node.attributes.end()) {
    if (const auto* constant = std::get_if<Constant>(&value->second)) {
      std::memcpy(&fill, constant->bytes->data(), constant->bytes->size());
    }
  }
  return LowerTake(builder, node, std::move(maps), fill);
}

Status LowerTile(ProgramBuilder& builder, const Node& node) {
  const Dims& x = builder.dims(node.inputs[0]);
  const Dims& y = builder.dims(node.outputs[0]);
  LAGOON_RETURN_IF_ERROR(CheckTable(y));
  std::vector<Map> maps;
  for (std::size_t axis = 0; axis < x.size(); ++axis) {
    Map& map = maps.emplace_back(IdentityMap(y[axis]));
    for (std::int64_t& index : map) index %= x[axis];
  }
  return LowerTake(builder, node, std::move(maps));
}

Status LowerCompress(ProgramBuilder& builder, const Node& node) {
  if (node.inputs.size() > 1) return LowerComputedCompress(builder, node);
  LAGOON_ASSIGN_OR_RETURN(Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  std::int64_t axis = node.Int("axis", -1);
  if (axis < 0) {
    LAGOON_ASSIGN_OR_RETURN(x, builder.Reshape(x, {ElementCount(x.dims)}));
    axis = 0;
  }
  LAGOON_RETURN_IF_ERROR(CheckTable(x.dims));
  std::vector<Map> maps;
  for (const std::int64_t size : x.dims) maps.push_back(IdentityMap(size));
  maps[static_cast<std::size_t>(axis)] = node.Ints("taken", {});
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitTake(builder, node.name, x, std::move(maps)));
  builder.Define(node.outputs[0], y);
  return {};
}

/// Reshapes x to the dims `split`, permutes it, and reshapes it to the output's dims.
Status LowerPermuted(ProgramBuilder& builder, const Node& node, const Dims& split,
                     const std::vector<std::int64_t>& order) {
  LAGOON_ASSIGN_OR_RETURN(Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(x, builder.Reshape(x, split));
  LAGOON_ASSIGN_OR_RETURN(Tensor y, builder.Transpose(x, order, Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(y, builder.Reshape(y, builder.dims(node.outputs[0])));
  builder.Define(node.outputs[0], y);
  return {};
}

/// A matrix of bools that is true where `keep(row, column)` is true.
template <typename Keep>
Result<Tensor> Mask(ProgramBuilder& builder, const std::string& name, std::int64_t rows,
                    std::int64_t columns, Keep&& keep) {
  LAGOON_RETURN_IF_ERROR(CheckTable({rows}));
  constexpr std::int64_t kMaxMask = std::int64_t{1} << 27;
  if (rows > 0 && columns > kMaxMask / rows) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("a mask of {} x {} is larger than {}", rows, columns, kMaxMask));
  }
  std::vector<std::uint8_t> mask;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      mask.push_back(keep(row, column) ? 1 : 0);
    }
  }
  return ConstantTensor(builder, name + ".mask", DataType::kBool, {rows, columns}, mask);
}

Result<Tensor> EmitWhere(ProgramBuilder& builder, const std::string& name, const Tensor& condition,
                         const Tensor& a, const Tensor& b, const Dims& dims) {
  const Tensor y = builder.NewTensor(name, dims, Layout::kPlain, a.type);
  LAGOON_RETURN_IF_ERROR(
      builder.Emit(name,
                   [&](auto& make) {
                     return make.Where({condition.dims, a.dims, b.dims, dims, a.type});
                   },
                   {builder.All(condition), builder.All(a), builder.All(b)}, {builder.All(y)}));
  return y;
}

/// The numbers 0, 1, ... as INT64 along `axis` of `rank` axes.
Result<Tensor> Places(ProgramBuilder& builder, const std::string& name, std::int64_t count,
                      std::size_t axis, std::size_t rank) {
  LAGOON_RETURN_IF_ERROR(CheckTable({count}));
  Dims dims(rank, 1);
  dims[axis] = count;
  return ConstantTensor(builder, name + ".places", DataType::kInt64, dims, IdentityMap(count));
}

Status LowerDepthToSpace(ProgramBuilder& builder, const Node& node) {
  const Dims x = builder.dims(node.inputs[0]);
  const std::int64_t b = node.Int("blocksize", 1);
  const std::int64_t c = x[1] / (b * b);
  if (node.String("mode", "DCR") == "DCR") {
    return LowerPermuted(builder, node, {x[0], b, b, c, x[2], x[3]}, {0, 3, 4, 1, 5, 2});
  }
  return LowerPermuted(builder, node, {x[0], c, b, b, x[2], x[3]}, {0, 1, 4, 2, 5, 3});
}

Status LowerSpaceToDepth(ProgramBuilder& builder, const Node& node) {
  const Dims x = builder.dims(node.inputs[0]);
  const std::int64_t b = node.Int("blocksize", 1);
  const Dims blocks{x[0], x[1], x[2] / b, b, x[3] / b, b};
  if (node.String("mode", "DCR") == "DCR") {
    return LowerPermuted(builder, node, blocks, {0, 3, 5, 1, 2, 4});
  }
  return LowerPermuted(builder, node, blocks, {0, 1, 3, 5, 2, 4});
}

Status LowerTrilu(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  const std::int64_t k = node.Int("k", 0);
  const bool upper = node.Int("upper", 1) != 0;
  const auto keeps = [&](std::int64_t row, std::int64_t column) {
    return upper ? column - row >= k : column - row <= k;
  };
  LAGOON_ASSIGN_OR_RETURN(
      const Tensor mask, Mask(builder, node.name, x.dims[x.dims.size() - 2], x.dims.back(), keeps));
  const Tensor zero = ConstantNumber(builder, x.type, 0);
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitWhere(builder, node.name, mask, x, zero, x.dims));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerEyeLike(ProgramBuilder& builder, const Node& node) {
  const ValueId output = node.outputs[0];
  const Dims dims = builder.dims(output);
  const std::int64_t k = node.Int("k", 0);
  const auto keeps = [&](std::int64_t row, std::int64_t column) { return column - row == k; };
  LAGOON_ASSIGN_OR_RETURN(const Tensor mask, Mask(builder, node.name, dims[0], dims[1], keeps));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitCast(builder, node.name, mask, builder.type(output)));
  builder.Define(output, y);
  return {};
}

Status LowerOneHot(ProgramBuilder& builder, const Node& node) {
  const Dims dims = builder.dims(node.outputs[0]);
  const auto axis = static_cast<std::size_t>(node.Int("axis", 0));
  LAGOON_ASSIGN_OR_RETURN(Tensor index, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const Tensor values, builder.Use(node.inputs[2], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(index, EmitCast(builder, node.name, index, DataType::kInt64));
  Dims apart = index.dims;
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  LAGOON_ASSIGN_OR_RETURN(index, builder.Reshape(index, apart));
  // A negative index counts from the end, so both the index and the index plus the depth are tried.
  LAGOON_ASSIGN_OR_RETURN(const Tensor place,
                          Places(builder, node.name, dims[axis], axis, dims.size()));
  const Tensor depth = ConstantNumber(builder, DataType::kInt64, static_cast<double>(dims[axis]));
  LAGOON_ASSIGN_OR_RETURN(const Tensor shifted,
                          EmitBinary(builder, node.name, BinaryOp::kAdd, index, depth));
  LAGOON_ASSIGN_OR_RETURN(Tensor hot,
                          EmitBinary(builder, node.name, BinaryOp::kEqual, index, place));
  LAGOON_ASSIGN_OR_RETURN(const Tensor hot_from_back,
                          EmitBinary(builder, node.name, BinaryOp::kEqual, shifted, place));
  LAGOON_ASSIGN_OR_RETURN(hot, EmitBinary(builder, node.name, BinaryOp::kOr, hot, hot_from_back));
  const std::vector<std::int64_t> one{1};
  LAGOON_ASSIGN_OR_RETURN(const Tensor off, EmitSlice(builder, node.name, values,
                                                      std::vector<std::int64_t>{0}, {1}, one));
  LAGOON_ASSIGN_OR_RETURN(const Tensor on, EmitSlice(builder, node.name, values,
                                                     std::vector<std::int64_t>{1}, {1}, one));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, EmitWhere(builder, node.name, hot, on, off, dims));
  builder.Define(node.outputs[0], y);
  return {};
}

Status LowerReverseSequence(ProgramBuilder& builder, const Node& node) {
  LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[0], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(Tensor lengths, builder.Use(node.inputs[1], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(lengths, EmitCast(builder, node.name, lengths, DataType::kInt64));
  const auto time = static_cast<std::size_t>(node.Int("time_axis", 0));
  const Dims both{x.dims[0], x.dims[1]};
  Dims along(2, 1);
  along[1 - time] = both[1 - time];
  LAGOON_ASSIGN_OR_RETURN(lengths, builder.Reshape(lengths, along));
  // Step t of a sequence of n steps comes from step n - 1 - t; steps behind the end of the sequence
  // stay.
  LAGOON_ASSIGN_OR_RETURN(const Tensor place, Places(builder, node.name, both[time], time, 2));
  const Tensor one = ConstantNumber(builder, DataType::kInt64, 1);
  LAGOON_ASSIGN_OR_RETURN(Tensor from,
                          EmitBinary(builder, node.name, BinaryOp::kSub, lengths, one));
  LAGOON_ASSIGN_OR_RETURN(from, EmitBinary(builder, node.name, BinaryOp::kSub, from, place));
  LAGOON_ASSIGN_OR_RETURN(const Tensor inside,
                          EmitBinary(builder, node.name, BinaryOp::kLess, place, lengths));
  LAGOON_ASSIGN_OR_RETURN(const Tensor index,
                          EmitWhere(builder, node.name, inside, from, place, both));
  IndexSpec spec;
  spec.run = ElementCount(x.dims) / (both[0] * both[1]);
  spec.entries = both;
  spec.index_strides = {both[1], 1};
  spec.base_strides = {both[1] * spec.run, spec.run};
  spec.sizes = {both[time]};
  spec.strides = {spec.base_strides[time]};
  spec.base_strides[time] = 0;
  spec.tensor = ElementCount(x.dims);
  spec.type = x.type;
  const Tensor y = builder.NewTensor(node.name, x.dims, Layout::kPlain, x.type);
  builder.Define(node.outputs[0], y);
  return builder.Emit(node.name, [&](auto& make) { return make.Gather(spec); },
                      {builder.All(x), builder.All(index)}, {builder.All(y)});
}

constexpr Lowering kTakeLowerings[] = {
    {"Pad", LowerPad},
    {"Tile", LowerTile},
    {"Trilu", LowerTrilu},
    {"EyeLike", LowerEyeLike},
    {"OneHot", LowerOneHot},
    {"Compress", LowerCompress},
    {"DepthToSpace", LowerDepthToSpace},
    {"SpaceToDepth", LowerSpaceToDepth},
    {"ReverseSequence", LowerReverseSequence},
};

}  // namespace

std::span<const Lowering> TakeLowerings() { return kTakeLowerings; }

}  // namespace lagoon
