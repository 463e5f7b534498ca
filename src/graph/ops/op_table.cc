// Joins the tables of the families shape_rules_*.cc to one. The bodies of ops that run are in
// `kernels`; docs/guide/ops.md lists the ops for users.

#include <unordered_map>

#include "base/check.h"
#include "graph/ops/op_context.h"
#include "graph/ops/shape_rules.h"

namespace lagoon {
namespace {

using Table = std::unordered_map<std::string_view, const OpSpec*>;

Table JoinFamilies() {
  Table table;
  for (const std::span<const OpSpec> family :
       {ConstantOps(), ElementwiseOps(), ElementwiseRowOps(), IndexOps(), LayoutOps(), LinearOps(),
        NormalizeOps(), PoolOps(), QuantizeOps(), RandomOps(), RecurrentOps(), ReduceOps(),
        RegionOps(), ResizeOps(), SampleOps(), SelectOps()}) {
    for (const OpSpec& spec : family) {
      const bool is_new = table.emplace(spec.op, &spec).second;
      LAGOON_CHECK(is_new);
    }
  }
  return table;
}

}  // namespace

const OpSpec* FindOp(std::string_view op) {
  static const Table table = JoinFamilies();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lagoon
