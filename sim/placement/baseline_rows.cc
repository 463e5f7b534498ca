#include "sim/placement/baseline_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
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

std::uint32_t GranulesOfPart(double part, std::uint32_t granules) {
  return std::max(1U, static_cast<std::uint32_t>(part * granules + 1e-9));
}

std::vector<double> ToParts(std::vector<double> shares) {
  std::vector<std::size_t> parts;
  double sum = 0;
  for (const double share : shares) {
    const auto part =
        std::ranges::find_if(kPaperParts, [&](double one) { return one >= share - 1e-9; });
    parts.push_back(static_cast<std::size_t>(part - kPaperParts.begin()));
    sum += kPaperParts[parts.back()];
  }
  while (sum > 1 + 1e-9) {
    const auto largest = std::ranges::max_element(parts);
    LAGOON_CHECK(*largest > 0);
    sum += kPaperParts[*largest - 1] - kPaperParts[*largest];
    --*largest;
  }
  for (std::size_t i = 0; i < shares.size(); ++i) shares[i] = kPaperParts[parts[i]];
  return shares;
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
