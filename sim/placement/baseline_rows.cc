#include "sim/placement/baseline_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace lagoon {

std::int64_t MostRows(const LatencyTable& table, std::uint32_t granules, double budget_ms,
                      double slower) {
  std::int64_t most = 1;
  for (std::size_t size = 0; size < table.sizes(); ++size) {
    if (table.Ms(size, granules) * slower <= budget_ms) most = table.rows(size);
  }
  return most;
}

std::optional<BaselineShare> FewestGranules(const LatencyTable& table, double rate,
                                            double budget_ms, double slower) {
  std::optional<BaselineShare> best;
  for (std::size_t size = 0; size < table.sizes(); ++size) {
    const std::int64_t rows = table.rows(size);
    const double to_keep_up = rate > 0 ? static_cast<double>(rows) / rate * 1e3 : budget_ms;
    const std::uint32_t granules = table.Fewest(size, std::min(budget_ms, to_keep_up) / slower);
    if (granules > table.granules()) continue;
    if (!best || granules <= best->granules) best = {granules, rows};
  }
  return best;
}

std::vector<std::size_t> OrderOf(const std::vector<double>& keys, bool descending) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return descending ? keys[a] > keys[b] : keys[a] < keys[b];
  });
  return order;
}

void Refuse(const PlacementView& view, std::size_t model, const char* reason,
            Assignment& assignment) {
  assignment.refused.push_back(
      {model, fmt::format("model {}: {}", Quoted(view.models[model].name), reason)});
}

}  // namespace lagoon
