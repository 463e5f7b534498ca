#include "program/split/choose.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace lagoon {

std::size_t ChooseByFitness(std::span<const double> fitness, double tie) {
  const double best = *std::ranges::max_element(fitness);
  std::size_t chosen = fitness.size() - 1;
  while (fitness[chosen] < best - tie) --chosen;
  return chosen;
}

bool IsLong(Nanoseconds whole, Nanoseconds shortest) { return whole > 2 * shortest; }

Result<PartsChoice> ChooseParts(const SplitModel& model, const ChooseOptions& options) {
  if (model.ops() < 2) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("a model of {} op{} cannot be cut",
                                                         model.ops(), model.ops() == 1 ? "" : "s"));
  }
  if (options.most < 2) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("at most {} parts: a choice has at least 2", options.most));
  }
  PartsChoice choice;
  std::vector<double> fitness;
  for (std::uint32_t parts = 2; parts <= std::min(options.most, model.ops()); ++parts) {
    LAGOON_ASSIGN_OR_RETURN(SplitResult result, SearchParts(model, parts, options.search));
    choice.parts.push_back(parts);
    fitness.push_back(result.best.front().shape.fitness);
    choice.results.push_back(std::move(result));
  }
  choice.chosen = ChooseByFitness(fitness, options.tie);
  return choice;
}

namespace {

Result<std::vector<std::uint32_t>> EndsOf(const SplitModel& model, std::uint32_t parts,
                                          const ChooseOptions& options) {
  if (parts == kAutoParts) {
    LAGOON_ASSIGN_OR_RETURN(PartsChoice choice, ChooseParts(model, options));
    return std::move(choice.results[choice.chosen].best.front().ends);
  }
  LAGOON_ASSIGN_OR_RETURN(SplitResult result, SearchParts(model, parts, options.search));
  return std::move(result.best.front().ends);
}

}  // namespace

Status SetParts(Plan& plan, std::uint32_t parts, const CutCost& cost,
                const ChooseOptions& options) {
  plan.part_ends.clear();
  if (parts == 1) return {};
  auto ends = EndsOf(SplitModelOf(plan, cost), parts, options);
  if (!ends) return Annotate(fmt::format("model {}", Quoted(plan.model)), std::move(ends).error());
  plan.part_ends = *std::move(ends);
  return {};
}

}  // namespace lagoon
