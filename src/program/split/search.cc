#include "program/split/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "base/random.h"

namespace lagoon {
namespace {

/// A candidate of the search: ends of parts, and their fitness.
struct Individual {
  std::vector<std::uint32_t> ends;
  double fitness = 0;
};

/// Puts the cuts (all of `ends` but the last) in order, and moves a second cut at one position to
/// the nearest position without a cut.
void Repair(std::vector<std::uint32_t>& ends) {
  const std::uint32_t ops = ends.back();
  const auto cuts = std::span(ends).first(ends.size() - 1);
  const auto taken = [&](std::size_t known, std::uint32_t position) {
    return std::ranges::find(cuts.first(known), position) != cuts.begin() + known;
  };
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    const std::uint32_t wanted = std::clamp(cuts[i], 1U, ops - 1);
    for (std::uint32_t away = 0; away < ops; ++away) {
      const bool below = wanted > away && !taken(i, wanted - away);
      const bool above = wanted + away < ops && !taken(i, wanted + away);
      if (!below && !above) continue;
      cuts[i] = below ? wanted - away : wanted + away;
      break;
    }
  }
  std::ranges::sort(cuts);
}

/// Most draws for one cut, and most steps away from candidates that were tried already.
constexpr int kTries = 8;

class Search {
 public:
  Search(const PartCosts& costs, std::uint32_t parts, const SearchOptions& options)
      : costs_(costs), parts_(parts), options_(options), random_(options.seed) {
    std::vector<double> cross;
    for (std::uint32_t p = 1; p < costs.ops(); ++p) cross.push_back(costs.CrossUs(p));
    if (cross.empty()) return;
    const auto middle = cross.begin() + static_cast<std::ptrdiff_t>(cross.size() / 2);
    std::ranges::nth_element(cross, middle);
    median_cross_ = *middle;
  }

  SplitResult Run() {
    std::vector<Individual> population;
    while (population.size() < std::max<std::size_t>(options_.population, 2)) {
      const bool uniform = random_.Happens(options_.uniform_share);
      Add(uniform ? DrawUniform() : DrawEven(), population);
    }
    Note(population);
    while (!Ended()) {
      population = NextGeneration(population);
      Note(population);
    }
    if (options_.descend) Descend(population);
    Keep(population);
    return std::move(result_);
  }

 private:
  bool Ended() const {
    const int done = static_cast<int>(result_.generations.size());
    // With one part, or a part for each op, there is one candidate.
    return done >= options_.generations || done - result_.found_in >= options_.patience ||
           parts_ == costs_.ops() || parts_ == 1;
  }

  void Add(std::vector<std::uint32_t> ends, std::vector<Individual>& to) {
    Repair(ends);
    seen_.insert(ends);
    to.push_back(Evaluate(std::move(ends)));
  }

  Individual Evaluate(std::vector<std::uint32_t> ends) {
    ++result_.evaluations;
    const double fitness = costs_.Fitness(ends);
    return {std::move(ends), fitness};
  }

  /// Sorts a generation, the best first, and records its best.
  void Note(std::vector<Individual>& population) {
    std::ranges::stable_sort(population, std::greater<>(), &Individual::fitness);
    const SplitShape best = costs_.Shape(population.front().ends);
    const bool better = result_.generations.empty() ||
                        population.front().fitness > result_.generations.back().fitness;
    result_.generations.push_back({best.sigma_us, best.overhead, best.fitness});
    if (better) result_.found_in = static_cast<int>(result_.generations.size());
  }

  void Keep(const std::vector<Individual>& population) {
    for (const Individual& one : population) {
      if (result_.best.size() >= std::max<std::size_t>(options_.keep, 1)) return;
      const auto known = std::ranges::find(result_.best, one.ends, &SplitCandidate::ends);
      if (known == result_.best.end()) {
        result_.best.push_back({one.ends, costs_.Shape(one.ends)});
      }
    }
  }

  /// A position for cut `cut` (from 0), drawn near its even share of the time. Cuts that much
  /// crosses are drawn again with a probability that grows with their cost.
  std::uint32_t DrawPosition(std::size_t cut) {
    std::uint32_t position = 1;
    for (int i = 0; i < kTries; ++i) {
      const double share = static_cast<double>(cut + 1) / parts_;
      position = PositionAt(share + random_.Uniform(-options_.jitter, options_.jitter));
      const double cross = costs_.CrossUs(position);
      if (cross <= median_cross_ || random_.Happens(median_cross_ / cross)) break;
    }
    return position;
  }

  /// The first position with at least this share of the time before it.
  std::uint32_t PositionAt(double share) const {
    const double target = share * costs_.BeforeUs(costs_.ops());
    std::uint32_t low = 1;
    std::uint32_t high = costs_.ops() - 1;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (costs_.BeforeUs(middle) < target) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  std::vector<std::uint32_t> DrawEven() {
    std::vector<std::uint32_t> ends;
    for (std::size_t cut = 0; cut + 1 < parts_; ++cut) ends.push_back(DrawPosition(cut));
    ends.push_back(costs_.ops());
    return ends;
  }

  std::vector<std::uint32_t> DrawUniform() {
    std::vector<std::uint32_t> ends;
    while (ends.size() + 1 < parts_) ends.push_back(1 + random_.Below(costs_.ops() - 1));
    ends.push_back(costs_.ops());
    return ends;
  }

  const Individual& Select(const std::vector<Individual>& population) {
    std::size_t best = population.size();  // the population is sorted: the smallest index wins
    for (std::size_t i = 0; i < std::max<std::size_t>(options_.tournament, 1); ++i) {
      best =
          std::min<std::size_t>(best, random_.Below(static_cast<std::uint32_t>(population.size())));
    }
    return population[best];
  }

  std::vector<Individual> NextGeneration(const std::vector<Individual>& population) {
    const std::size_t elite = std::min(options_.elite, population.size());
    std::vector<Individual> next(population.begin(),
                                 population.begin() + static_cast<std::ptrdiff_t>(elite));
    while (next.size() < population.size()) {
      std::vector<std::uint32_t> child = Select(population).ends;
      if (random_.Happens(options_.crossover)) Cross(Select(population).ends, child);
      Mutate(child);
      Leave(child);
      Add(std::move(child), next);
    }
    return next;
  }

  /// One point: the cuts from there on are those of the other parent.
  void Cross(const std::vector<std::uint32_t>& other, std::vector<std::uint32_t>& child) {
    const auto cuts = static_cast<std::uint32_t>(child.size() - 1);
    if (cuts < 2) return;
    const std::uint32_t point = 1 + random_.Below(cuts - 1);
    std::copy(other.begin() + point, other.end(), child.begin() + point);
  }

  void Mutate(std::vector<std::uint32_t>& child) {
    // A plan of few ops would never move a cut.
    const double deviation = std::max(costs_.ops() / 50.0, 1.0);
    for (std::size_t cut = 0; cut + 1 < child.size(); ++cut) {
      if (!random_.Happens(options_.mutation)) continue;
      if (random_.Happens(0.5)) {
        child[cut] = DrawPosition(cut);
        continue;
      }
      const double moved = child[cut] + std::round(random_.Normal() * deviation);
      child[cut] = static_cast<std::uint32_t>(std::clamp<double>(moved, 1, costs_.ops() - 1));
    }
  }

  /// Moves cuts by one position while the child is a candidate that was tried already: a second
  /// evaluation would teach nothing.
  void Leave(std::vector<std::uint32_t>& child) {
    Repair(child);
    for (int i = 0; i < kTries && seen_.contains(child); ++i) {
      std::uint32_t& cut = child[random_.Below(parts_ - 1)];
      cut = random_.Happens(0.5) ? cut - 1 : cut + 1;
      Repair(child);
    }
  }

  /// From each member of the last generation, the best one first: moves single cuts by up to 3
  /// positions, as long as that is better and evaluations are left.
  void Descend(std::vector<Individual>& population) {
    for (Individual& one : population) {
      while (true) {
        Individual better = BestNeighbour(one);
        if (better.fitness <= one.fitness) break;
        one = std::move(better);
      }
    }
    std::ranges::stable_sort(population, std::greater<>(), &Individual::fitness);
  }

  /// `one` itself if no neighbour that was not tried yet is better.
  Individual BestNeighbour(const Individual& one) {
    Individual best = one;
    for (std::size_t cut = 0; cut + 1 < parts_; ++cut) {
      for (const int by : {-1, 1, -2, 2, -3, 3}) {
        const std::int64_t to = std::int64_t{one.ends[cut]} + by;
        if (to < 1 || to >= costs_.ops()) continue;
        std::vector<std::uint32_t> ends = one.ends;
        ends[cut] = static_cast<std::uint32_t>(to);
        Repair(ends);
        if (result_.evaluations >= options_.evaluations) return best;
        if (!seen_.insert(ends).second) continue;
        Individual other = Evaluate(std::move(ends));
        if (other.fitness > best.fitness) best = std::move(other);
      }
    }
    return best;
  }

  const PartCosts& costs_;
  const std::uint32_t parts_;
  const SearchOptions& options_;
  Random random_;
  double median_cross_ = 0;
  std::set<std::vector<std::uint32_t>> seen_;  // all candidates that were evaluated
  SplitResult result_;
};

}  // namespace

Status CheckParts(const SplitModel& model, std::uint32_t parts) {
  if (parts == 0) {
    return Fail(ErrorCode::kInvalidArgument, "0 parts: a model has at least 1 part");
  }
  if (parts <= model.ops()) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("{} parts, but the model has {} op{}: each part needs one of its own",
                          parts, model.ops(), model.ops() == 1 ? "" : "s"));
}

Result<SplitResult> SearchParts(const SplitModel& model, std::uint32_t parts,
                                const SearchOptions& options) {
  LAGOON_RETURN_IF_ERROR(CheckParts(model, parts));
  if (options.generations < 1) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} generations: a search has at least 1", options.generations));
  }
  const PartCosts costs(model);
  return Search(costs, parts, options).Run();
}

}  // namespace lagoon
