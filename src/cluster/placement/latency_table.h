#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "cluster/interference/latency_model.h"

namespace lagoon {

/// A latency model's times and loads at every number of granules and some numbers of rows. Reading
/// them takes nanoseconds, which a search needs. Immutable.
class LatencyTable {
 public:
  /// `granules`: of the device, 1 to 4096. `most_rows`: 1 to 1024.
  LatencyTable(const LatencyModel& model, std::uint32_t granules, std::int64_t most_rows);

  std::size_t sizes() const { return rows_.size(); }
  /// 1, 2, 4, 8, 12, 16, 24, 32, 48, ..., up to the most rows.
  std::int64_t rows(std::size_t size) const { return rows_[size]; }
  std::uint32_t granules() const { return granules_; }
  /// Alone. `granules`: 1 to granules().
  double Ms(std::size_t size, std::uint32_t granules) const { return At(size, granules).ms; }
  DeviceLoad Load(std::size_t size, std::uint32_t granules) const {
    return At(size, granules).load;
  }
  /// The fewest granules with which a batch takes at most `ms`; more than granules(): there are
  /// none.
  std::uint32_t Fewest(std::size_t size, double ms) const;
  const LatencyModel& model() const { return model_; }

 private:
  struct Entry {
    double ms = 0;
    DeviceLoad load;
  };
  const Entry& At(std::size_t size, std::uint32_t granules) const {
    return entries_[size * granules_ + granules - 1];
  }

  const LatencyModel& model_;
  const std::uint32_t granules_;
  std::vector<std::int64_t> rows_;
  std::vector<Entry> entries_;
};

/// The tables of latency models, each made once. Not thread-safe.
class LatencyTables {
 public:
  /// A decision begins: tables that the one before did not use are dropped.
  void Begin();
  /// Valid until the next but one Begin(), and as long as `model` lives.
  const LatencyTable& Of(const LatencyModel& model, std::uint32_t granules, std::int64_t most_rows);

 private:
  // LatencyModel::id(), granules, rows
  using Key = std::tuple<std::uint64_t, std::uint32_t, std::int64_t>;
  struct Entry {
    std::unique_ptr<LatencyTable> table;
    std::uint64_t used = 0;  // in this decision
  };
  std::map<Key, Entry> tables_;
  std::uint64_t decision_ = 0;
};

}  // namespace lagoon
