// Elementwise nodes between bytes, as a table of what they make of each byte. The kernels of the
// nodes compute the table when the model is loaded, so that its bytes are those that the nodes
// would have made of every element.

#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/elementwise/byte_table.h"
#include "program/lower/emit.h"
#include "program/lower/lower_bytes.h"

namespace lagoon {
namespace {

/// The floats that the bytes stand for, along the last of `rank` axes.
ValueId AddBytesAsFloats(ProgramBuilder& builder, const std::string& name, const ByteGrid& grid,
                         std::size_t rank) {
  std::vector<float> floats(kByteTableSize);
  for (std::size_t i = 0; i < floats.size(); ++i) {
    floats[i] = (static_cast<float>(i) - static_cast<float>(grid.zero)) * grid.scale;
  }
  Dims dims(rank, 1);
  dims.back() = kByteTableSize;
  const std::string key = fmt::format("bytes {} {} {}", grid.scale, grid.zero, rank);
  Constant constant{DataType::kFloat32, dims,
                    std::make_shared<ConstantData::Bytes>(BytesOf(floats))};
  return builder.AddValue(name, std::move(constant), key);
}

/// What the nodes make of the bytes of `function.of`, as bytes on `grid`.
Result<Tensor> EmitTable(ProgramBuilder& builder, const ByteFunction& function, ValueId value,
                         LowerFunction lower) {
  const std::string name = builder.graph().value(value).name + ".table";
  const std::size_t rank = builder.dims(value).size();
  std::map<ValueId, ValueId> small;  // by value: the same for the 256 bytes
  small[function.of] = AddBytesAsFloats(builder, name, *builder.flow()->GridAt(function.of), rank);
  Dims dims(rank, 1);
  dims.back() = kByteTableSize;
  for (const Node* const node : function.nodes) {
    Node copy = *node;
    copy.name += ".table";
    for (ValueId& input : copy.inputs) {
      if (const auto found = small.find(input); found != small.end()) input = found->second;
    }
    copy.outputs[0] = builder.AddValue(name, DataType::kFloat32, dims);
    small[node->outputs[0]] = copy.outputs[0];
    LAGOON_RETURN_IF_ERROR(lower(builder, copy));
  }
  LAGOON_ASSIGN_OR_RETURN(const Tensor floats, builder.Use(small[value], Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const ByteTensor bytes,
                          EmitBytes(builder, name, floats, *builder.flow()->GridAt(value)));
  return bytes.tensor;
}

Result<ByteTensor> EmitLookUp(ProgramBuilder& builder, const std::string& name, const Tensor& x,
                              const Tensor& table, const ByteGrid& grid) {
  LAGOON_ASSIGN_OR_RETURN(Kernel kernel,
                          MakeByteTable(static_cast<std::size_t>(ElementCount(x.dims))));
  const Tensor y = builder.NewTensor(name + ".bytes", x.dims, x.layout, DataType::kUInt8);
  LAGOON_RETURN_IF_ERROR(builder.Emit(name, std::move(kernel), {builder.All(x), builder.All(table)},
                                      {builder.All(y)}));
  return ByteTensor{y, grid};
}

}  // namespace

Result<ByteTensor> OnGrid(ProgramBuilder& builder, const std::string& name, const ByteTensor& x,
                          const ByteGrid& grid) {
  if (x.grid == grid) return x;
  const ValueId floats = AddBytesAsFloats(builder, name + ".table", x.grid, 1);
  LAGOON_ASSIGN_OR_RETURN(const Tensor from, builder.Use(floats, Layout::kPlain));
  LAGOON_ASSIGN_OR_RETURN(const ByteTensor table, EmitBytes(builder, name + ".table", from, grid));
  return EmitLookUp(builder, name, x.tensor, table.tensor, grid);
}

Result<bool> TryLowerByteDequantize(ProgramBuilder& builder, const Node& node) {
  const std::optional<ByteGrid> grid = DequantizedGridOf(builder.graph(), node);
  if (!grid || !builder.flow()->WantsBytes(node.outputs[0])) return false;
  const auto input = std::span(node.inputs).first(1);
  LAGOON_ASSIGN_OR_RETURN(Tensor x, builder.Use(input[0], builder.CheapestLayout(input)));
  if (x.type == DataType::kInt8) {
    std::vector<std::uint8_t> shifted(kByteTableSize);
    for (std::size_t i = 0; i < shifted.size(); ++i) {
      shifted[i] = static_cast<std::uint8_t>(i ^ 0x80);
    }
    const Tensor table = ConstantTensor(builder, node.name + ".table", DataType::kUInt8,
                                        {static_cast<std::int64_t>(kByteTableSize)}, shifted);
    LAGOON_ASSIGN_OR_RETURN(const ByteTensor bytes,
                            EmitLookUp(builder, node.name, x, table, *grid));
    x = bytes.tensor;
  }
  builder.DefineBytes(node.outputs[0], {{x, *grid}});
  return true;
}

Result<bool> TryLowerByteTable(ProgramBuilder& builder, const Node& node, LowerFunction lower) {
  const ValueId y = node.outputs[0];
  const ByteFunction* const function = builder.flow()->FunctionOf(y);
  if (function == nullptr) return false;
  const std::array<ValueId, 1> of{function->of};
  LAGOON_ASSIGN_OR_RETURN(const ByteTensor x, UseBytes(builder, of[0], builder.CheapestLayout(of)));
  LAGOON_ASSIGN_OR_RETURN(const Tensor table, EmitTable(builder, *function, y, lower));
  LAGOON_ASSIGN_OR_RETURN(const ByteTensor bytes, EmitLookUp(builder, node.name, x.tensor, table,
                                                             *builder.flow()->GridAt(y)));
  builder.DefineBytes(y, {bytes});
  return true;
}

}  // namespace lagoon
