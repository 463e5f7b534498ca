#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace lagoon {

/// Keeps `count` cuts: the best-scored one in each of `count` equal logarithmic ranges of block
/// time, then the best of the rest. A cut has Score() (lower is better) and block_us().
template <typename Cut>
std::vector<Cut> SpreadCuts(std::vector<Cut> cuts, std::size_t count) {
  if (cuts.size() <= count) return cuts;
  std::sort(cuts.begin(), cuts.end(),
            [](const Cut& a, const Cut& b) { return a.Score() < b.Score(); });
  const auto [shortest, longest] =
      std::minmax_element(cuts.begin(), cuts.end(),
                          [](const Cut& a, const Cut& b) { return a.block_us() < b.block_us(); });
  const double low = std::log(shortest->block_us());
  const double step = (std::log(longest->block_us()) - low) / static_cast<double>(count) + 1e-9;
  std::vector<bool> taken(count + 1);
  std::vector<Cut> spread, rest;
  for (const Cut& cut : cuts) {
    const auto stretch = static_cast<std::size_t>((std::log(cut.block_us()) - low) / step);
    (taken[stretch] ? rest : spread).push_back(cut);
    taken[stretch] = true;
  }
  for (std::size_t i = 0; spread.size() < count; ++i) spread.push_back(rest[i]);
  return spread;
}

}  // namespace lagoon
