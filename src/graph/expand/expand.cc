#include "graph/expand/expand.h"

#include <map>
#include <utility>

#include "base/check.h"

namespace lagoon {
namespace {

using Table = std::map<std::pair<std::string_view, std::string_view>, const Expansion*>;

Table JoinExpansions() {
  Table table;
  for (const std::span<const Expansion> family :
       {ActivationExpansions(), AttentionExpansions(), DeformExpansions(), FourierExpansions(),
        LinearExpansions(), LossExpansions(), MatrixExpansions(), MlExpansions(), MoveExpansions(),
        NormalizationExpansions(), QuantizedExpansions(), RandomExpansions(), RegionExpansions(),
        ResizeExpansions(), RotaryExpansions(), SignalExpansions(), StateExpansions(),
        TreeExpansions()}) {
    for (const Expansion& row : family) {
      const bool is_new = table.emplace(std::pair(row.domain, row.signature.op), &row).second;
      LAGOON_CHECK(is_new);
    }
  }
  return table;
}

const Table& Expansions() {
  static const Table table = JoinExpansions();
  return table;
}

}  // namespace

bool IsExpandable(const Node& node) { return Expansions().contains({node.domain, node.op}); }

const Expansion* FindExpansion(const OpContext& context) {
  const Table& table = Expansions();
  const auto found = table.find({context.node().domain, context.node().op});
  if (found == table.end()) return nullptr;
  const Expansion& expansion = *found->second;
  return expansion.applies == nullptr || expansion.applies(context) ? &expansion : nullptr;
}

}  // namespace lagoon
