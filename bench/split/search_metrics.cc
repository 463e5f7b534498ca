#include "bench/split/search_metrics.h"

#include <algorithm>

#include "program/split/optimal.h"
#include "program/split/search.h"

namespace lagoon::bench {

using Json = nlohmann::json;

SplitModel SplitModelOfList(const SimModel& model) {
  SplitModel known;
  for (const SimModelKernel& kernel : model.kernels) {
    known.op_us.push_back(ToMicroseconds(kernel.time));
  }
  return known;
}

double SigmaMs(const SimModel& model, std::span<const std::uint32_t> ends) {
  return PartCosts(SplitModelOfList(model)).Shape(ends).sigma_us / 1e3;
}

Status WriteSearchMetrics(const std::string& name, const SplitModel& model, std::uint32_t parts,
                          Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const SplitResult found, SearchParts(model, parts));
  LAGOON_ASSIGN_OR_RETURN(const OptimalResult best, OptimalParts(model, parts));
  report.Metric("split_generations." + name, found.found_in);
  const double optimum = best.candidate.shape.fitness;
  if (optimum < 0) {
    report.Metric("split_fitness_vs_optimum." + name, found.best.front().shape.fitness / optimum);
  }
  return {};
}

namespace {

constexpr int kGenerations = 15;  // of the paper

SearchOptions Generations(bool random, std::uint32_t seed) {
  SearchOptions options;
  options.generations = options.patience = kGenerations;
  options.seed = seed;
  options.descend = false;
  if (random) options.uniform_share = 1;
  return options;
}

Json JsonOf(const std::vector<GenerationBest>& generations) {
  Json list = Json::array();
  for (const GenerationBest& best : generations) {
    list.push_back(
        {{"sigma_us", best.sigma_us}, {"overhead", best.overhead}, {"fitness", best.fitness}});
  }
  return list;
}

}  // namespace

Result<Json> GenerationsOf(const std::string& name, const SplitModel& model, std::uint32_t parts) {
  LAGOON_ASSIGN_OR_RETURN(const OptimalResult optimum, OptimalParts(model, parts));
  LAGOON_ASSIGN_OR_RETURN(const SplitResult even, SearchParts(model, parts, Generations(false, 1)));
  Json within = Json::array(), random = Json::array();
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    LAGOON_ASSIGN_OR_RETURN(const SplitResult found,
                            SearchParts(model, parts, Generations(true, seed)));
    // Both are below 0, and the optimum is the nearest to it.
    const auto near = std::ranges::find_if(found.generations, [&](const GenerationBest& best) {
      return best.fitness >= 1.01 * optimum.candidate.shape.fitness;
    });
    within.push_back(near == found.generations.end() ? 0 : near - found.generations.begin() + 1);
    if (seed == 1) random = JsonOf(found.generations);
  }
  return Json{{"model", name},
              {"parts", parts},
              {"even", JsonOf(even.generations)},
              {"random", std::move(random)},
              {"random_within_1_percent", std::move(within)}};
}

}  // namespace lagoon::bench
