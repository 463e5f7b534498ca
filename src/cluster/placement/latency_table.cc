#include "cluster/placement/latency_table.h"

#include <algorithm>

namespace lagoon {
namespace {

std::vector<std::int64_t> SizesUpTo(std::int64_t most) {
  std::vector<std::int64_t> sizes;
  for (const std::int64_t size : {1, 2, 4, 8}) {
    if (size < most) sizes.push_back(size);
  }
  for (std::int64_t power = 8; power < most; power *= 2) {
    if (power > 8) sizes.push_back(power);
    if (power / 2 * 3 < most) sizes.push_back(power / 2 * 3);
  }
  sizes.push_back(most);
  return sizes;
}

}  // namespace

LatencyTable::LatencyTable(const LatencyModel& model, std::uint32_t granules,
                           std::int64_t most_rows)
    : model_(model), granules_(granules), rows_(SizesUpTo(most_rows)) {
  entries_.reserve(rows_.size() * granules);
  for (const std::int64_t rows : rows_) {
    for (std::uint32_t count = 1; count <= granules; ++count) {
      const double share = static_cast<double>(count) / granules;
      entries_.push_back({model.AloneMs(rows, share), model.LoadOf(rows, share)});
    }
  }
}

std::uint32_t LatencyTable::Fewest(std::size_t size, double ms) const {
  const auto first = entries_.begin() + static_cast<std::ptrdiff_t>(size * granules_);
  const auto found = std::ranges::partition_point(
      first, first + granules_, [&](const Entry& entry) { return entry.ms > ms; });
  return static_cast<std::uint32_t>(found - first) + 1;
}

void LatencyTables::Begin() {
  std::erase_if(tables_, [this](const auto& entry) { return entry.second.used < decision_; });
  ++decision_;
}

const LatencyTable& LatencyTables::Of(const LatencyModel& model, std::uint32_t granules,
                                      std::int64_t most_rows) {
  Entry& entry = tables_[{model.id(), granules, most_rows}];
  if (entry.table == nullptr) {
    entry.table = std::make_unique<LatencyTable>(model, granules, most_rows);
  }
  entry.used = decision_;
  return *entry.table;
}

}  // namespace lagoon
