#include "sim/placement/igniter_placer.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace lagoon {
namespace {

struct Entry {
  std::size_t model = 0;
  const LatencyTable* table = nullptr;
  BaselineShare share;
};

std::uint32_t Sum(const std::vector<Entry>& entries) {
  std::uint32_t sum = 0;
  for (const Entry& entry : entries) sum += entry.share.granules;
  return sum;
}

// Whether the model is fast enough beside the others.
bool FastEnough(const PlacementView& view, const std::vector<Entry>& entries, std::size_t index,
                double busy) {
  const Entry& own = entries[index];
  const ModelView& model = view.models[own.model];
  std::vector<Neighbour> others;
  for (const Entry& entry : entries) {
    if (&entry == &own) continue;
    others.push_back({&entry.table->model(), entry.share.rows,
                      static_cast<double>(entry.share.granules) / entry.table->granules()});
  }
  const double share = static_cast<double>(own.share.granules) / own.table->granules();
  const double ms = model.latency->LatencyMs(own.share.rows, share, others);
  return ms <= model.SloMs() / 2 &&
         static_cast<double>(own.share.rows) / ms * 1e3 * busy >= model.rate;
}

// Gives 2.5 % to each model that is too slow, until none is. False: the GPU is too small.
bool Enlarge(const PlacementView& view, std::vector<Entry>& entries, std::uint32_t granules,
             double busy) {
  const auto step = std::max(1U, static_cast<std::uint32_t>(std::lround(0.025 * granules)));
  while (Sum(entries) <= granules) {
    bool slow = false;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (FastEnough(view, entries, i, busy)) continue;
      entries[i].share.granules += step;
      slow = true;
      if (Sum(entries) > granules) return false;
    }
    if (!slow) return true;
  }
  return false;
}

bool HasMemory(const PlacementView& view, std::size_t gpu, const std::vector<Entry>& entries) {
  std::int64_t memory = 0;
  for (const Entry& entry : entries) memory += MemoryOf(view.models[entry.model], entry.share.rows);
  return memory <= view.gpus[gpu].memory_bytes;
}

}  // namespace

Assignment IgniterPlacer::Place(const PlacementView& view) {
  Assignment assignment;
  std::vector<std::vector<Entry>> gpus(view.gpus.size());
  const auto need = [&](std::size_t model, std::size_t gpu) {
    const ModelView& seen = view.models[model];
    const LatencyTable& table = tables_.Of(*seen.latency, view.gpus[gpu].granules, seen.most_rows);
    const double budget_ms = seen.SloMs() / 2;
    const auto fewest = FewestGranules(table, seen.rate / busy_, budget_ms);
    const std::uint32_t all = table.granules();
    return Entry{model, &table,
                 fewest.value_or(BaselineShare{all, MostRows(table, all, budget_ms)})};
  };
  std::vector<double> needs;
  for (std::size_t model = 0; model < view.models.size(); ++model) {
    needs.push_back(need(model, 0).share.granules);
  }
  const auto order = OrderOf(needs, true);
  for (const std::size_t model : order) {
    std::optional<std::size_t> place, empty, roomiest;
    std::vector<Entry> best;
    std::uint32_t least = 0;
    for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
      std::vector<Entry> entries = gpus[gpu];
      const std::uint32_t before = Sum(entries);
      entries.push_back(need(model, gpu));
      if (!HasMemory(view, gpu, entries)) continue;
      const std::uint32_t free = view.gpus[gpu].granules - before;
      if (free > 0 && (!roomiest || free > view.gpus[*roomiest].granules - Sum(gpus[*roomiest]))) {
        roomiest = gpu;
      }
      if (gpus[gpu].empty()) {
        if (!empty) empty = gpu;
        continue;
      }
      if (!Enlarge(view, entries, view.gpus[gpu].granules, busy_)) continue;
      const std::uint32_t more = Sum(entries) - before;
      if (place && more >= least) continue;
      place = gpu;
      least = more;
      best = std::move(entries);
    }
    if (place) {
      gpus[*place] = std::move(best);
    } else if (empty) {
      gpus[*empty].push_back(need(model, *empty));
    } else if (roomiest) {
      Entry entry = need(model, *roomiest);
      const std::uint32_t free = view.gpus[*roomiest].granules - Sum(gpus[*roomiest]);
      entry.share.granules = std::min(entry.share.granules, free);
      entry.share.rows =
          MostRows(*entry.table, entry.share.granules, view.models[model].SloMs() / 2);
      gpus[*roomiest].push_back(entry);
    } else {
      Refuse(view, model, "no GPU has a free granule and the memory", assignment);
    }
  }
  for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
    for (const Entry& entry : gpus[gpu]) {
      assignment.replicas.push_back({entry.model, gpu, entry.share.granules, entry.share.rows, 1});
    }
  }
  SortReplicas(assignment);
  return assignment;
}

}  // namespace lagoon
