// Nodes that an engine computes: one kernel of one block for each.

#include <fmt/format.h>

#include <utility>

#include "engine/opaque_kernel.h"
#include "graph/opaque/opaque.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
Status LowerOpaque(ProgramBuilder& builder, const Node& node) {
  if (builder.options().kernels != nullptr) {
    return Fail(
        ErrorCode::kUnimplemented,
        fmt::format("{}; an engine runs such nodes on device 'cpu' only", node.opaque->why));
  }
  const OpaqueGraph& opaque = *node.opaque;
  LAGOON_ASSIGN_OR_RETURN(auto model, LoadOpaque(opaque));
  OpaqueKernel::Words words{opaque.ops, opaque.why, opaque.engine, opaque.assumed};
  std::vector<EngineTensor> inputs, outputs;
  std::vector<Operand> from, to;
  for (const ValueId id : node.inputs) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(id, Layout::kPlain));
    inputs.push_back({x.type, x.dims, nullptr});
    if (ElementCount(x.dims) > 0) from.push_back(builder.All(x));
  }
  // Outputs that nothing reads are left out, also the last ones.
  for (std::size_t i = 0; i < model->Describe().outputs.size(); ++i) {
    const ValueId id = i < node.outputs.size() ? node.outputs[i] : kNoValue;
    if (id == kNoValue) {
      outputs.push_back({DataType::kFloat32, {-1}, nullptr});
      continue;
    }
    const Value& value = builder.graph().value(id);
    if (value.unsized) {
      const auto number = static_cast<std::uint32_t>(i);
      builder.Define(id, builder.NewTensor(value.name, value.dims, Layout::kPlain, value.type));
      builder.DefineMade(id, number);
      words.made.push_back(number);
      outputs.push_back({value.type, {-1}, nullptr});
      continue;
    }
    const Tensor y = builder.NewTensor(value.name, value.dims, Layout::kPlain, value.type);
    builder.Define(id, y);
    outputs.push_back({y.type, y.dims, nullptr});
    if (y.type == DataType::kString) words.strings.push_back(static_cast<std::uint32_t>(i));
    if (ElementCount(y.dims) > 0) to.push_back(builder.All(y));
  }
  to.push_back(builder.All(builder.NewStatus(node.name + ":status")));
  auto body = std::make_shared<OpaqueKernel>(std::move(model), std::move(inputs),
                                             std::move(outputs), std::move(words));
  Kernel kernel;
  kernel.name = "opaque";
  kernel.body = OpaqueKernel::Block;
  kernel.blocks = 1;
  kernel.args = body->Args();
  for (std::size_t i = 0; i < from.size(); ++i) kernel.inputs.push_back(body->OffsetOf(i));
  for (std::size_t i = 0; i < to.size(); ++i) {
    kernel.outputs.push_back(body->OffsetOf(from.size() + i));
  }
  for (const Operand& operand : from) kernel.bytes_moved += static_cast<double>(operand.bytes);
  for (const Operand& operand : to) kernel.bytes_moved += static_cast<double>(operand.bytes);
  builder.EmitOpaque(
      {node.name, std::move(kernel), std::move(from), std::move(to), std::move(body)});
  return {};
}

}  // namespace lagoon
