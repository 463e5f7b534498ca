// Einsum, as sums, permutations and products of matrices.

#include <utility>

#include "graph/ops/einsum.h"
#include "program/lower/emit.h"
#include "program/lower/lower_nodes.h"

namespace lagoon {
namespace {

// An operand of Einsum, with a label per axis.
struct Labelled {
  std::string labels;
  Tensor tensor;
};

bool Has(const std::string& labels, char label) { return labels.find(label) != std::string::npos; }

/// Sums over the labels that are not in `wanted`.
Result<Labelled> SumAway(ProgramBuilder& builder, const std::string& name, Labelled x,
                         const std::string& wanted) {
  std::vector<std::size_t> axes;
  Labelled kept;
  Dims dims;
  for (std::size_t i = 0; i < x.labels.size(); ++i) {
    if (!Has(wanted, x.labels[i])) {
      axes.push_back(i);
      continue;
    }
    kept.labels.push_back(x.labels[i]);
    dims.push_back(x.tensor.dims[i]);
  }
  LAGOON_ASSIGN_OR_RETURN(Tensor sum, EmitReduce(builder, name, ReduceOp::kSum, x.tensor, axes));
  LAGOON_ASSIGN_OR_RETURN(kept.tensor, builder.Reshape(sum, dims));
  return kept;
}

/// x with its axes in the order of `labels`.
Result<Tensor> Permuted(ProgramBuilder& builder, const Labelled& x, const std::string& labels) {
  std::vector<std::int64_t> order;
  for (const char label : labels) {
    order.push_back(static_cast<std::int64_t>(x.labels.find(label)));
  }
  return builder.Transpose(x.tensor, order, Layout::kPlain);
}

std::int64_t SizeOf(const Labelled& x, const std::string& labels) {
  std::int64_t size = 1;
  for (const char label : labels) size *= x.tensor.dims[x.labels.find(label)];
  return size;
}

/// Expands the axes of size one in x whose labels have a larger size in `other`, so that a product
/// of matrices needs no broadcasting.
Result<Labelled> Widened(ProgramBuilder& builder, const std::string& name, Labelled x,
                         const Labelled& other) {
  Dims dims = x.tensor.dims;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t at = other.labels.find(x.labels[i]);
    if (at != std::string::npos) dims[i] = std::max(dims[i], other.tensor.dims[at]);
  }
  LAGOON_ASSIGN_OR_RETURN(x.tensor, EmitExpand(builder, name, x.tensor, dims));
  return x;
}

/// The product of two operands; keeps the labels in `wanted`.
Result<Labelled> Contract(ProgramBuilder& builder, const std::string& name, Labelled a, Labelled b,
                          const std::string& wanted) {
  LAGOON_ASSIGN_OR_RETURN(a, SumAway(builder, name, a, wanted + b.labels));
  LAGOON_ASSIGN_OR_RETURN(b, SumAway(builder, name, b, wanted + a.labels));
  LAGOON_ASSIGN_OR_RETURN(a, Widened(builder, name, a, b));
  LAGOON_ASSIGN_OR_RETURN(b, Widened(builder, name, b, a));
  std::string batch, rows, columns, summed;
  for (const char label : a.labels) {
    std::string& group = !Has(b.labels, label) ? rows : Has(wanted, label) ? batch : summed;
    group.push_back(label);
  }
  for (const char label : b.labels) {
    if (!Has(a.labels, label)) columns.push_back(label);
  }
  LAGOON_ASSIGN_OR_RETURN(Tensor left, Permuted(builder, a, batch + rows + summed));
  LAGOON_ASSIGN_OR_RETURN(Tensor right, Permuted(builder, b, batch + summed + columns));
  const std::int64_t matrices = SizeOf(a, batch);
  LAGOON_ASSIGN_OR_RETURN(left,
                          builder.Reshape(left, {matrices, SizeOf(a, rows), SizeOf(a, summed)}));
  LAGOON_ASSIGN_OR_RETURN(
      right, builder.Reshape(right, {matrices, SizeOf(a, summed), SizeOf(b, columns)}));
  LAGOON_ASSIGN_OR_RETURN(Tensor product, EmitSameTypeMatMul(builder, name, left, right));
  Dims dims;
  for (const char label : batch + rows) dims.push_back(a.tensor.dims[a.labels.find(label)]);
  for (const char label : columns) dims.push_back(b.tensor.dims[b.labels.find(label)]);
  LAGOON_ASSIGN_OR_RETURN(product, builder.Reshape(product, dims));
  return Labelled{batch + rows + columns, product};
}

Status LowerEinsum(ProgramBuilder& builder, const Node& node) {
  std::vector<Dims> shapes;
  for (const ValueId input : node.inputs) shapes.push_back(builder.dims(input));
  LAGOON_ASSIGN_OR_RETURN(const Einsum einsum, ParseEinsum(node.String("equation", ""), shapes));
  std::vector<Labelled> operands;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    LAGOON_ASSIGN_OR_RETURN(const Tensor x, builder.Use(node.inputs[i], Layout::kPlain));
    operands.push_back({einsum.inputs[i], x});
  }
  while (operands.size() > 1) {
    std::string wanted = einsum.output;
    for (std::size_t i = 2; i < operands.size(); ++i) wanted += operands[i].labels;
    LAGOON_ASSIGN_OR_RETURN(operands[1],
                            Contract(builder, node.name, operands[0], operands[1], wanted));
    operands.erase(operands.begin());
  }
  LAGOON_ASSIGN_OR_RETURN(const Labelled result,
                          SumAway(builder, node.name, operands[0], einsum.output));
  LAGOON_ASSIGN_OR_RETURN(const Tensor y, Permuted(builder, result, einsum.output));
  builder.Define(node.outputs[0], y);
  return {};
}

constexpr Lowering kEinsumLowerings[] = {
    {"Einsum", LowerEinsum},
};

}  // namespace

std::span<const Lowering> EinsumLowerings() { return kEinsumLowerings; }

}  // namespace lagoon
