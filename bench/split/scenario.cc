#include "bench/split/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>

#include "base/check.h"

namespace lagoon::bench {
namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::array<double, kSplitScenarios> kIntervalsMs = {160, 150, 140, 130, 120, 110};

Nanoseconds FromMilliseconds(double ms) {
  return std::chrono::duration_cast<Nanoseconds>(Milliseconds(ms));
}

// Uniform in (0, 1). Distributions of the standard libraries differ from each other.
double UniformOf(std::mt19937& random) { return (random() + 0.5) / 4294967296.0; }

double ExponentialGap(std::mt19937& random) { return -std::log(UniformOf(random)); }

struct Draw {
  double at;
  std::size_t model;
};

std::vector<Draw> DrawOneProcess(std::size_t models, int requests, std::mt19937& random) {
  std::vector<Draw> draws;
  double at = 0;
  for (int i = 0; i < requests; ++i) {
    at += ExponentialGap(random);
    draws.push_back(
        {at, static_cast<std::size_t>(UniformOf(random) * static_cast<double>(models))});
  }
  return draws;
}

// A process for each model, each with the same mean gap. The first `requests` of all count.
std::vector<Draw> DrawPerModel(std::size_t models, int requests, std::mt19937& random) {
  std::vector<double> next(models);
  for (double& at : next) at = ExponentialGap(random);
  std::vector<Draw> draws;
  for (int i = 0; i < requests; ++i) {
    const auto first = std::min_element(next.begin(), next.end());
    draws.push_back({*first, static_cast<std::size_t>(first - next.begin())});
    *first += ExponentialGap(random);
  }
  return draws;
}

}  // namespace

Result<SplitReading> ParseSplitReading(std::string_view word) {
  if (word == "one-process") return SplitReading::kOneProcess;
  if (word == "per-model") return SplitReading::kPerModel;
  return Fail(ErrorCode::kNotFound,
              fmt::format("there is no reading '{}'; there are: one-process, per-model", word));
}

Result<SplitCase> SplitScenario(int number, SplitReading reading, double scale) {
  if (number < 1 || number > kSplitScenarios) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no scenario {}; SPLIT has 1 to {}", number, kSplitScenarios));
  }
  const double ms = kIntervalsMs[static_cast<std::size_t>(number - 1)] * scale;
  return SplitCase{fmt::format("s{}", number),
                   reading == SplitReading::kPerModel ? ".overload" : "", reading,
                   FromMilliseconds(ms)};
}

SplitCase SplitLoad(double load, std::span<const double> alone_ms) {
  LAGOON_CHECK(load > 0 && !alone_ms.empty());
  const double sum = std::accumulate(alone_ms.begin(), alone_ms.end(), 0.0);
  const double interval_ms = sum / static_cast<double>(alone_ms.size()) / load;
  return {fmt::format("load{}", std::lround(load * 100)), "", SplitReading::kOneProcess,
          FromMilliseconds(interval_ms)};
}

double LoadOf(const SplitCase& split_case, std::span<const double> alone_ms) {
  const double sum = std::accumulate(alone_ms.begin(), alone_ms.end(), 0.0);
  const double load = sum / ToMilliseconds(split_case.interval);
  const bool one = split_case.reading == SplitReading::kOneProcess;
  return one ? load / static_cast<double>(alone_ms.size()) : load;
}

std::vector<SplitArrival> MakeSplitArrivals(const SplitCase& split_case, std::size_t models,
                                            int requests, std::uint32_t seed) {
  LAGOON_CHECK(models > 0 && requests > 0);
  std::mt19937 random(seed);
  const bool one = split_case.reading == SplitReading::kOneProcess;
  const std::vector<Draw> draws =
      one ? DrawOneProcess(models, requests, random) : DrawPerModel(models, requests, random);
  const double mean_gap =
      static_cast<double>(split_case.interval.count()) / (one ? 1.0 : static_cast<double>(models));
  const double scale = mean_gap * requests / draws.back().at;
  std::vector<SplitArrival> arrivals;
  for (const Draw& draw : draws) {
    arrivals.push_back({Nanoseconds(std::llround(draw.at * scale)), draw.model});
  }
  return arrivals;
}

}  // namespace lagoon::bench
