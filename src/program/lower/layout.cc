#include "program/lower/layout.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace lagoon {

std::vector<std::int64_t> PhysicalOrder(std::size_t rank, Layout layout) {
  if (layout == Layout::kChannelsLast) {
    LAGOON_CHECK(rank >= 3 && rank <= 5);
    if (rank == 3) return {0, 2, 1};
    if (rank == 4) return {0, 2, 3, 1};
    return {0, 3, 4, 1, 2};
  }
  std::vector<std::int64_t> order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Dims PhysicalDims(const Dims& dims, Layout layout) {
  Dims physical;
  for (const std::int64_t axis : PhysicalOrder(dims.size(), layout)) {
    physical.push_back(dims[static_cast<std::size_t>(axis)]);
  }
  return physical;
}

std::size_t PhysicalAxis(std::size_t rank, Layout layout, std::size_t axis) {
  const std::vector<std::int64_t> order = PhysicalOrder(rank, layout);
  const auto at = std::find(order.begin(), order.end(), static_cast<std::int64_t>(axis));
  LAGOON_CHECK(at != order.end());
  return static_cast<std::size_t>(at - order.begin());
}

Permutation Simplify(const Permutation& permutation) {
  // Runs of axes of x that are neighbours in y too, without axes of size one, in the order of y.
  struct Run {
    std::int64_t first, last, size;
  };
  std::vector<Run> runs;
  for (const std::int64_t axis : permutation.order) {
    const std::int64_t size = permutation.dims[static_cast<std::size_t>(axis)];
    if (size == 1) continue;
    bool follows = !runs.empty() && runs.back().last < axis;
    for (std::int64_t between = runs.empty() ? 0 : runs.back().last + 1; follows && between < axis;
         ++between) {
      follows = permutation.dims[static_cast<std::size_t>(between)] == 1;
    }
    if (follows) {
      runs.back().last = axis;
      runs.back().size *= size;
    } else {
      runs.push_back({axis, axis, size});
    }
  }

  Permutation simple;
  simple.order.resize(runs.size());
  simple.dims.resize(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto before = std::count_if(
        runs.begin(), runs.end(), [&](const Run& other) { return other.first < runs[i].first; });
    simple.order[i] = before;
    simple.dims[static_cast<std::size_t>(before)] = runs[i].size;
  }
  return simple;
}

Permutation MovePermutation(const Dims& dims, Layout from, std::span<const std::int64_t> order,
                            Layout to) {
  Permutation permutation;
  permutation.dims = PhysicalDims(dims, from);
  for (const std::int64_t y_axis : PhysicalOrder(dims.size(), to)) {
    const auto x_axis = static_cast<std::size_t>(order[static_cast<std::size_t>(y_axis)]);
    permutation.order.push_back(static_cast<std::int64_t>(PhysicalAxis(dims.size(), from, x_axis)));
  }
  return Simplify(permutation);
}

AxisSplit SplitAt(const Dims& dims, std::size_t first, std::size_t last) {
  LAGOON_CHECK(first <= last && last < dims.size());
  AxisSplit split;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto size = static_cast<std::size_t>(dims[i]);
    (i < first ? split.outer : i <= last ? split.axis : split.inner) *= size;
  }
  return split;
}

}  // namespace lagoon
