#include "sim/placement/relabel.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <vector>

namespace lagoon {
namespace {

// Above this many GPUs the exact assignment, which takes n^3 steps, is left to a greedy one.
constexpr std::size_t kMostExact = 64;

using Costs = std::vector<std::vector<std::int64_t>>;  // [new GPU][present GPU]

// The Hungarian algorithm with potentials (Kuhn, Munkres): for each row the column that it gets,
// with the least sum of costs.
std::vector<std::size_t> LeastCosts(const Costs& costs) {
  const std::size_t size = costs.size(), none = size;
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max() / 4;
  std::vector<std::int64_t> of_row(size), of_column(size + 1);
  std::vector<std::size_t> row_of(size + 1, none);  // by column; the last one starts each search
  for (std::size_t row = 0; row < size; ++row) {
    row_of[size] = row;
    std::vector<std::int64_t> least(size, kFar);
    std::vector<std::size_t> from(size, size);
    std::vector<bool> seen(size + 1);
    std::size_t column = size;
    while (row_of[column] != none) {
      seen[column] = true;
      std::size_t next = size;
      std::int64_t step = kFar;
      for (std::size_t to = 0; to < size; ++to) {
        if (seen[to]) continue;
        const std::int64_t cost =
            costs[row_of[column]][to] - of_row[row_of[column]] - of_column[to];
        if (cost < least[to]) {
          least[to] = cost;
          from[to] = column;
        }
        if (least[to] < step) {
          step = least[to];
          next = to;
        }
      }
      for (std::size_t to = 0; to <= size; ++to) {
        if (seen[to]) {
          of_row[row_of[to]] += step;
          of_column[to] -= step;
        } else if (to < size) {
          least[to] -= step;
        }
      }
      column = next;
    }
    while (column != size) {
      row_of[column] = row_of[from[column]];
      column = from[column];
    }
  }
  std::vector<std::size_t> columns(size);
  for (std::size_t column = 0; column < size; ++column) columns[row_of[column]] = column;
  return columns;
}

std::vector<std::size_t> Greedy(const Costs& costs) {
  const std::size_t size = costs.size();
  std::vector<std::tuple<std::int64_t, std::size_t, std::size_t>> pairs;
  for (std::size_t row = 0; row < size; ++row) {
    for (std::size_t column = 0; column < size; ++column) {
      if (costs[row][column] < 0) pairs.emplace_back(costs[row][column], row, column);
    }
  }
  std::ranges::sort(pairs);
  std::vector<std::size_t> columns(size, size);
  std::vector<bool> taken(size);
  for (const auto& [cost, row, column] : pairs) {
    if (columns[row] < size || taken[column]) continue;
    columns[row] = column;
    taken[column] = true;
  }
  std::size_t free = 0;
  for (std::size_t& column : columns) {
    if (column < size) continue;
    while (taken[free]) ++free;
    column = free;
    taken[free] = true;
  }
  return columns;
}

// What stays, as a cost below 0, for each pair of a new and a present GPU of `group`.
Costs CostsOf(const PlacementView& view, const Assignment& next,
              const std::vector<std::size_t>& group) {
  std::vector<std::size_t> place(view.gpus.size(), group.size());
  for (std::size_t i = 0; i < group.size(); ++i) place[group[i]] = i;
  // A granule counts more than all own names together, which decide between equals.
  Costs costs(group.size(), std::vector<std::int64_t>(group.size()));
  for (std::size_t i = 0; i < group.size(); ++i) costs[i][i] = -1;
  const auto weight = static_cast<std::int64_t>(group.size()) + 1;
  for (const PlacedReplica& replica : next.replicas) {
    if (place[replica.gpu] == group.size()) continue;
    for (const PlacedReplica& present : view.current.replicas) {
      if (present.model != replica.model || place[present.gpu] == group.size()) continue;
      costs[place[replica.gpu]][place[present.gpu]] -=
          weight * std::min(replica.granules, present.granules);
    }
  }
  return costs;
}

}  // namespace

Assignment Relabel(const PlacementView& view, Assignment next) {
  std::vector<std::size_t> name_of(view.gpus.size(), view.gpus.size());
  for (std::size_t first = 0; first < view.gpus.size(); ++first) {
    if (name_of[first] < view.gpus.size()) continue;
    std::vector<std::size_t> group;
    for (std::size_t gpu = first; gpu < view.gpus.size(); ++gpu) {
      const bool equal = view.gpus[gpu].granules == view.gpus[first].granules &&
                         view.gpus[gpu].memory_bytes == view.gpus[first].memory_bytes;
      if (equal) group.push_back(gpu);
    }
    const Costs costs = CostsOf(view, next, group);
    const auto columns = group.size() <= kMostExact ? LeastCosts(costs) : Greedy(costs);
    for (std::size_t i = 0; i < group.size(); ++i) name_of[group[i]] = group[columns[i]];
  }
  for (PlacedReplica& replica : next.replicas) replica.gpu = name_of[replica.gpu];
  SortReplicas(next);
  return next;
}

}  // namespace lagoon
