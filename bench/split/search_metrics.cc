#include "bench/split/search_metrics.h"

#include "program/split/optimal.h"
#include "program/split/search.h"

namespace lagoon::bench {

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

}  // namespace lagoon::bench
