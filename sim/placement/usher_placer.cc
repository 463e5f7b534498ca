#include "sim/placement/usher_placer.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lagoon {
namespace {

struct Entry {
  std::size_t model = 0;
  double fraction = 1;
  const LatencyTable* table = nullptr;
  BaselineShare share;
};

double Budget(const ModelView& model) { return model.SloMs() / 2; }

// Where a granule does the most, and at least what keeps up with the rate.
BaselineShare MostPerGranule(const LatencyTable& table, double rate, double budget_ms,
                             double busy) {
  BaselineShare best{table.granules(), 1};
  double most = 0;
  for (std::size_t size = 0; size < table.sizes(); ++size) {
    for (std::uint32_t granules = 1; granules <= table.granules(); ++granules) {
      const double ms = table.Ms(size, granules);
      const double rows_per_s = static_cast<double>(table.rows(size)) / ms * 1e3;
      if (ms > budget_ms || rows_per_s * busy < rate) continue;
      if (rows_per_s / granules <= most) continue;
      most = rows_per_s / granules;
      best = {granules, table.rows(size)};
    }
  }
  if (most == 0) best.rows = MostRows(table, table.granules(), budget_ms);
  // Granules beyond the need are left to others.
  const auto fewest = FewestGranules(table, rate / busy, budget_ms);
  if (fewest && fewest->granules < best.granules) best = *fewest;
  return best;
}

std::uint32_t Sum(const std::vector<Entry>& entries) {
  std::uint32_t sum = 0;
  for (const Entry& entry : entries) sum += entry.share.granules;
  return sum;
}

double Interference(const std::vector<Entry>& entries) {
  double sum = 0;
  for (const Entry& own : entries) {
    DeviceLoad load;
    for (const Entry& other : entries) {
      if (&other == &own) continue;
      const double share = static_cast<double>(other.share.granules) / other.table->granules();
      load += other.table->model().LoadOf(other.share.rows, share);
    }
    sum += own.table->model().Slowdown(load, entries.size() > 1) - 1;
  }
  return sum;
}

// Hands out what is left of a GPU.
void Fill(const PlacementView& view, std::uint32_t granules, std::vector<Entry>& entries) {
  const std::uint32_t used = Sum(entries);
  std::uint32_t left = granules - used;
  for (Entry& entry : entries) {
    const auto part = static_cast<std::uint32_t>(static_cast<double>(granules - used) *
                                                 entry.share.granules / used);
    entry.share.granules += std::min(part, left);
    left -= std::min(part, left);
  }
  if (!entries.empty()) entries.front().share.granules += left;
  for (Entry& entry : entries) {
    const double budget_ms = Budget(view.models[entry.model]);
    entry.share.rows = MostRows(*entry.table, entry.share.granules, budget_ms);
  }
}

}  // namespace

Assignment UsherPlacer::Place(const PlacementView& view) {
  Assignment assignment;
  std::vector<Entry> replicas;
  for (std::size_t model = 0; model < view.models.size(); ++model) {
    const ModelView& seen = view.models[model];
    const LatencyTable& table = tables_.Of(*seen.latency, view.gpus[0].granules, seen.most_rows);
    std::size_t count = 1;
    while (count < view.gpus.size() &&
           !FewestGranules(table, seen.rate / busy_ / static_cast<double>(count), Budget(seen))) {
      ++count;
    }
    const double fraction = 1 / static_cast<double>(count);
    const BaselineShare share = MostPerGranule(table, seen.rate * fraction, Budget(seen), busy_);
    for (std::size_t i = 0; i < count; ++i) replicas.push_back({model, fraction, &table, share});
  }
  std::ranges::stable_sort(
      replicas, [](const Entry& a, const Entry& b) { return a.share.granules > b.share.granules; });
  std::vector<std::vector<Entry>> gpus(view.gpus.size());
  std::vector<std::size_t> placed(view.models.size());
  for (Entry replica : replicas) {
    const ModelView& model = view.models[replica.model];
    double least = std::numeric_limits<double>::infinity();
    std::size_t place = gpus.size(), roomiest = gpus.size();
    std::uint32_t most = 0;
    for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
      std::int64_t memory = MemoryOf(model, model.most_rows);
      bool twice = false;
      for (const Entry& entry : gpus[gpu]) {
        memory += MemoryOf(view.models[entry.model], view.models[entry.model].most_rows);
        twice = twice || entry.model == replica.model;
      }
      if (twice || memory > view.gpus[gpu].memory_bytes) continue;
      const std::uint32_t free = view.gpus[gpu].granules - Sum(gpus[gpu]);
      if (free > most) {
        most = free;
        roomiest = gpu;
      }
      if (free < replica.share.granules) continue;
      std::vector<Entry> with = gpus[gpu];
      with.push_back(replica);
      // An empty GPU is taken last, only if the others would suffer.
      const double cost = Interference(with) - Interference(gpus[gpu]) +
                          static_cast<double>(Sum(with)) / view.gpus[gpu].granules * 0.05;
      if (cost >= least) continue;
      least = cost;
      place = gpu;
    }
    if (place == gpus.size()) place = roomiest;
    if (place == gpus.size()) continue;
    replica.table = &tables_.Of(*model.latency, view.gpus[place].granules, model.most_rows);
    const std::uint32_t free = view.gpus[place].granules - Sum(gpus[place]);
    replica.share.granules = std::min(replica.share.granules, free);
    gpus[place].push_back(replica);
    ++placed[replica.model];
  }
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    if (gpus[gpu].empty()) continue;
    Fill(view, view.gpus[gpu].granules, gpus[gpu]);
    for (const Entry& entry : gpus[gpu]) {
      assignment.replicas.push_back({entry.model, gpu, entry.share.granules, entry.share.rows,
                                     1 / static_cast<double>(placed[entry.model])});
    }
  }
  for (std::size_t model = 0; model < placed.size(); ++model) {
    if (placed[model] == 0) {
      Refuse(view, model, "no GPU has a free granule and the memory", assignment);
    }
  }
  SortReplicas(assignment);
  return assignment;
}

}  // namespace lagoon
