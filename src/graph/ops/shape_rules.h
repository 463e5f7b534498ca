#pragma once

// The ops that Lagoon imports: each file shape_rules_*.cc has the shape rules of a family of ops
// and, at its end, the family's table. A row is: op, since, inputs (least, most), outputs,
// attributes, rule, evaluator, run time. FindOp() (op_table.cc) joins the tables. Here is also what
// the files share.

#include <span>

#include "base/status.h"
#include "graph/ops/op_context.h"

namespace lagoon {

std::span<const OpSpec> ConstantOps();
std::span<const OpSpec> ElementwiseOps();
/// The ops that their row of plan/elementwise_list.h describes; no other table has them.
std::span<const OpSpec> ElementwiseRowOps();
std::span<const OpSpec> IndexOps();
std::span<const OpSpec> LayoutOps();
std::span<const OpSpec> LinearOps();
std::span<const OpSpec> NormalizeOps();
std::span<const OpSpec> PoolOps();
std::span<const OpSpec> QuantizeOps();
std::span<const OpSpec> RandomOps();
std::span<const OpSpec> RecurrentOps();
std::span<const OpSpec> ReduceOps();
std::span<const OpSpec> RegionOps();
std::span<const OpSpec> ResizeOps();
std::span<const OpSpec> SampleOps();
std::span<const OpSpec> SelectOps();

/// The shape that `a` and `b` broadcast to, by numpy's rules; the error names both shapes.
Result<Dims> Broadcast(const OpContext& context, const Dims& a, const Dims& b);

/// Fails unless input `i` is int32 or int64.
Status CheckIndices(const OpContext& context, std::size_t i);

/// The value of a Constant node, from whichever attribute holds it.
Result<Constant> ConstantNodeValue(const OpContext& context);

}  // namespace lagoon
