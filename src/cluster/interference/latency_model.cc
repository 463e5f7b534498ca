#include "cluster/interference/latency_model.h"

#include <algorithm>
#include <atomic>

namespace lagoon {
namespace {

std::atomic<std::uint64_t> next_id{0};

}  // namespace

LatencyModel::LatencyModel(Surface alone, LoadLine cache, LoadLine dram, SlowdownTerms slowdown,
                           Transfers transfers)
    : alone_(std::move(alone)),
      cache_(cache),
      dram_(dram),
      slowdown_(slowdown),
      transfers_(transfers),
      id_(next_id.fetch_add(1, std::memory_order_relaxed)) {}

double LoadLine::At(double rows_per_s) const { return std::max(0.0, offset + slope * rows_per_s); }

DeviceLoad LatencyModel::LoadOf(std::int64_t rows, double share) const {
  const double rows_per_s = alone_.Throughput(rows, share);
  return {cache_.At(rows_per_s), dram_.At(rows_per_s)};
}

double LatencyModel::Slowdown(const DeviceLoad& load, bool neighbours) const {
  if (!neighbours) return 1;
  const double linear =
      1 + slowdown_.constant + slowdown_.cache * load.cache + slowdown_.dram * load.dram;
  const double x = std::max(1.0, linear) - 1;
  return 1 + x / (1 + x / slowdown_.limit);
}

double LatencyModel::LatencyMs(std::int64_t rows, double share,
                               std::span<const Neighbour> neighbours) const {
  DeviceLoad load;
  for (const Neighbour& neighbour : neighbours) {
    load += neighbour.model->LoadOf(neighbour.rows, neighbour.share);
  }
  const double run_ms = alone_.LatencyMs(rows, share);
  return run_ms * Slowdown(load, !neighbours.empty()) + transfers_.At(rows);
}

}  // namespace lagoon
