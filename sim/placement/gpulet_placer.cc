#include "sim/placement/gpulet_placer.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "cluster/knee.h"

namespace lagoon {
namespace {

constexpr double kInterference = 1.1;

struct Gpu {
  std::vector<double> free = {1.0};  // a whole GPU, or what the first model left
  bool whole = true;
};

// The most rows that meet the SLO on a part: two batches, if the part only just keeps up, else a
// batch and the time until it is full.
std::optional<std::int64_t> RowsThatMeet(const ModelView& model, const LatencyTable& table,
                                         std::uint32_t granules, double busy) {
  const double slo_ms = model.SloMs();
  std::optional<std::int64_t> most;
  for (std::size_t size = 0; size < table.sizes(); ++size) {
    const auto rows = static_cast<double>(table.rows(size));
    const double ms = table.Ms(size, granules) * kInterference;
    if (rows / ms * 1e3 * busy < model.rate) continue;
    const bool full = model.rate > 0 && ms + 1e3 * rows / model.rate <= slo_ms;
    if (2 * ms <= slo_ms || full) most = table.rows(size);
  }
  return most;
}

// What a model asks for: the smaller of its knee and of what keeps up, as one of the parts.
double IdealPart(const ModelView& model, const LatencyTable& table, double busy) {
  const double all = table.granules();
  double ideal = Knee(model.latency->alone(), 8, table.granules()) / all;
  const auto keeps_up = FewestGranules(table, model.rate / busy, model.SloMs() / 2);
  if (keeps_up) ideal = std::min(ideal, keeps_up->granules / all);
  return *std::ranges::find_if(kPaperParts, [&](double part) { return part >= ideal - 1e-9; });
}

// The part that is cut from `free` for a model that asks for `ideal`: the free part itself, unless
// it is a whole GPU.
double Cut(const Gpu& gpu, double free, double ideal) { return gpu.whole ? ideal : free; }

}  // namespace

Assignment GpuletPlacer::Place(const PlacementView& view) {
  Assignment assignment;
  std::vector<Gpu> gpus(view.gpus.size());
  std::vector<std::int64_t> memory;
  for (const GpuView& gpu : view.gpus) memory.push_back(gpu.memory_bytes);
  std::vector<double> keys;
  for (const ModelView& model : view.models) keys.push_back(model.rate * model.SloMs());
  const auto order = OrderOf(keys, false);
  for (const std::size_t model : order) {
    const ModelView& seen = view.models[model];
    double best = 2, largest = 0;
    std::size_t place = gpus.size(), fallback = gpus.size();
    for (std::size_t gpu = 0; gpu < gpus.size(); ++gpu) {
      if (gpus[gpu].free.empty() || MemoryOf(seen, seen.most_rows) > memory[gpu]) continue;
      const LatencyTable& table =
          tables_.Of(*seen.latency, view.gpus[gpu].granules, seen.most_rows);
      const double free = gpus[gpu].free.front(), ideal = IdealPart(seen, table, busy_);
      if (free > largest) {
        largest = free;
        fallback = gpu;
      }
      const double part = Cut(gpus[gpu], free, ideal);
      if (part < ideal || free >= best) continue;
      if (!RowsThatMeet(seen, table, GranulesOfPart(part, view.gpus[gpu].granules), busy_))
        continue;
      best = free;
      place = gpu;
    }
    if (place == gpus.size()) place = fallback;
    if (place == gpus.size()) {
      Refuse(view, model, "every GPU has two models already, or too little memory", assignment);
      continue;
    }
    Gpu& gpu = gpus[place];
    const LatencyTable& table =
        tables_.Of(*seen.latency, view.gpus[place].granules, seen.most_rows);
    const bool met = best < 2;
    const double part =
        met ? Cut(gpu, gpu.free.front(), IdealPart(seen, table, busy_)) : gpu.free.front();
    const std::uint32_t granules = GranulesOfPart(part, view.gpus[place].granules);
    const std::int64_t rows =
        RowsThatMeet(seen, table, granules, busy_)
            .value_or(MostRows(table, granules, seen.SloMs() / 2, kInterference));
    assignment.replicas.push_back({model, place, granules, rows, 1});
    memory[place] -= MemoryOf(seen, seen.most_rows);
    gpu.free.clear();
    if (gpu.whole && part < 1) gpu.free.push_back(1 - part);
    gpu.whole = false;
  }
  SortReplicas(assignment);
  return assignment;
}

}  // namespace lagoon
