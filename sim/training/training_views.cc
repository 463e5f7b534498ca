#include "sim/training/training_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "cluster/knee.h"
#include "cluster/learned/demand.h"
#include "sim/surfaces/a100_models.h"

namespace lagoon {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;
constexpr std::int64_t kOverhead = 800'000'000;   // of a replica besides its weights
constexpr std::uint32_t kGranules[] = {54, 100};  // an A100's pairs of SMs; percent
constexpr double kUsed = 0.6;                     // of the GPUs at load 1

double LogUniform(double from, double to, Random& random) {
  return from * std::pow(to / from, random.Uniform());
}

Surface DrawSurface(Random& random) {
  const SurfaceFormula formula{.base_ms = LogUniform(0.4, 16, random),
                               .row_ms = LogUniform(0.06, 2.5, random),
                               .fixed = random.Uniform(0.05, 0.4),
                               .knee = random.Uniform(0.1, 0.7),
                               .growth = random.Uniform(0.1, 0.4)};
  auto surface = Surface::FromFormula(formula);
  LAGOON_CHECK(surface.has_value());
  return *std::move(surface);
}

}  // namespace

TrainingEpisode::TrainingEpisode(const TrainingRanges& ranges, Random& random) {
  const std::uint32_t granules = kGranules[random.Below(2)];
  const auto spread = static_cast<std::uint32_t>(ranges.most_models - ranges.fewest_models + 1);
  const std::size_t models = ranges.fewest_models + random.Below(spread);
  std::int64_t memory = 40 * kGigabyte;
  if (random.Happens(ranges.scarce_memory)) {
    const double each = static_cast<double>(models) / static_cast<double>(ranges.gpus);
    memory = static_cast<std::int64_t>(1.8e9 * (each + 1));
  }
  view_.gpus.assign(ranges.gpus, {.granules = granules, .memory_bytes = memory});
  const bool published = random.Happens(ranges.published);
  for (std::size_t i = 0; i < models; ++i) published ? AddPublished(random) : AddModel(random);
  ScaleRates(ranges, random);
}

void TrainingEpisode::AddModel(Random& random) {
  Surface surface = DrawSurface(random);
  ModelView model;
  const double slo_ms = random.Uniform(2.5, 7) * surface.LatencyMs(8, 0.4);
  model.slo = Nanoseconds(static_cast<std::int64_t>(slo_ms * 1e6));
  model.memory_bytes = static_cast<std::int64_t>(random.Uniform(0.8, 1.8) * kGigabyte);
  model.row_bytes = static_cast<std::int64_t>(random.Uniform(0.001, 0.03) * kGigabyte);
  const double cache = random.Uniform(0.1, 0.7), dram = random.Uniform(0.1, 0.7);
  Add(std::move(model), std::move(surface), cache, dram, random);
}

void TrainingEpisode::AddPublished(Random& random) {
  const auto models = A100Models();
  const A100Model& drawn = models[random.Below(static_cast<std::uint32_t>(models.size()))];
  ModelView model;
  model.slo = drawn.slo;
  model.memory_bytes = kOverhead + drawn.weights_bytes;
  model.row_bytes = drawn.row_bytes;
  Add(std::move(model), A100Surface(drawn.name), drawn.cache, drawn.dram, random);
}

// `cache`, `dram`: loads of batches of 16 rows on the whole device.
void TrainingEpisode::Add(ModelView model, Surface surface, double cache, double dram,
                          Random& random) {
  const double most = surface.Throughput(16, 1);
  const auto line = [&](double load) {
    const double offset = random.Uniform(0, 0.2) * load;
    return LoadLine{.offset = offset, .slope = (load - offset) / most};
  };
  const SlowdownTerms slowdown{.constant = random.Uniform(0, 0.1),
                               .cache = random.Uniform(0, 0.3),
                               .dram = random.Uniform(0, 0.35)};
  // Drawn one after the other: compilers differ in the order in which they compute arguments.
  const LoadLine dram_line = line(dram);
  const LoadLine cache_line = line(cache);
  latencies_.emplace_back(std::move(surface), cache_line, dram_line, slowdown);
  model.name = fmt::format("model {}", view_.models.size());
  model.latency = &latencies_.back();
  view_.models.push_back(std::move(model));
}

// Rates in proportion to what a model does at its knee, times the load of the episode. At load 1
// the knees' shares of the time are kUsed of the GPUs.
void TrainingEpisode::ScaleRates(const TrainingRanges& ranges, Random& random) {
  double used = 0;  // GPUs at rates of what the knees serve
  for (const ModelView& model : view_.models) {
    const double knee = Knee(model.latency->alone(), 8, 100) / 100.0;
    const double weight = random.Uniform(0.3, 1.7);
    first_rates_.push_back(weight * model.latency->alone().Throughput(8, knee));
    used += weight * knee;
  }
  const double load = random.Uniform(ranges.least_load, ranges.most_load);
  const double scale = load * kUsed * static_cast<double>(view_.gpus.size()) / used;
  for (std::size_t i = 0; i < first_rates_.size(); ++i) {
    first_rates_[i] *= scale;
    view_.models[i].rate = first_rates_[i];
  }
}

void TrainingEpisode::Walk(Random& random) {
  for (std::size_t i = 0; i < first_rates_.size(); ++i) {
    const double moved = view_.models[i].rate * (1 + 0.05 * random.Normal());
    view_.models[i].rate = std::clamp(moved, 0.5 * first_rates_[i], 1.5 * first_rates_[i]);
  }
}

}  // namespace lagoon
