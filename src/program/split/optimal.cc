#include "program/split/optimal.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lagoon {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Ends of the parts with the least sum of squares of their times.
std::vector<std::uint32_t> LeastSquares(const PartCosts& costs, std::uint32_t parts) {
  const std::uint32_t ops = costs.ops();
  // least[p]: the least sum of the first k parts if they end at position p.
  std::vector<double> least(ops + 1, kInfinite);
  least[0] = 0;
  std::vector<std::vector<std::uint32_t>> begins;  // by k and p: where part k begins
  for (std::uint32_t k = 0; k < parts; ++k) {
    std::vector<double> next(ops + 1, kInfinite);
    std::vector<std::uint32_t>& from = begins.emplace_back(ops + 1);
    for (std::uint32_t end = k + 1; end + (parts - k - 1) <= ops; ++end) {
      for (std::uint32_t begin = k; begin < end; ++begin) {
        const double part = costs.PartUs(begin, end);
        const double sum = least[begin] + part * part;
        if (sum >= next[end]) continue;
        next[end] = sum;
        from[end] = begin;
      }
    }
    least = std::move(next);
  }
  std::vector<std::uint32_t> ends(parts);
  std::uint32_t end = ops;
  for (std::uint32_t k = parts; k > 0; --k) {
    ends[k - 1] = end;
    end = begins[k - 1][end];
  }
  return ends;
}

/// Tries all candidates that may be better than the best one so far. Takes e^x - 1 as at least x.
class BranchAndBound {
 public:
  BranchAndBound(const PartCosts& costs, std::vector<std::uint32_t> start, std::uint64_t max_steps)
      : costs_(costs),
        parts_(static_cast<std::uint32_t>(start.size())),
        max_steps_(max_steps),
        least_cross_(costs.ops() + 1),
        ends_(start.size()),
        best_(std::move(start)),
        loss_(-costs.Fitness(best_)) {
    // least_cross_[p]: of the positions behind p, before the end of the model.
    double least = kInfinite;
    for (std::uint32_t p = costs.ops(); p-- > 0;) {
      least_cross_[p] = least;
      if (p > 0) least = std::min(least, costs.CrossUs(p));
      most_cross_ = std::max(most_cross_, costs.CrossUs(p));
    }
  }

  void Run() { Place(0, 0, {}); }

  const std::vector<std::uint32_t>& best() const { return best_; }
  bool exact() const { return steps_ < max_steps_; }
  std::uint64_t steps() const { return steps_; }

 private:
  /// The parts before the one at hand.
  struct Known {
    double sum = 0;
    double squares = 0;
  };

  /// Tries all ends of part `part`, which begins at op `begin`.
  void Place(std::uint32_t part, std::uint32_t begin, Known known) {
    if (part + 1 == parts_) {
      ends_[part] = costs_.ops();
      ++steps_;
      const double loss = -costs_.Fitness(ends_);
      if (loss >= loss_) return;
      loss_ = loss;
      best_ = ends_;
      return;
    }
    const std::uint32_t last = costs_.ops() - (parts_ - part - 1);
    for (std::uint32_t end = FirstEnd(begin); end <= last && exact(); ++end) {
      ++steps_;
      const double least_us = costs_.PartUs(begin, end) - costs_.CrossUs(end);
      if (least_us > LongestUs()) return;
      const double part_us = costs_.PartUs(begin, end);
      const Known with{known.sum + part_us, known.squares + part_us * part_us};
      if (LeastLoss(part + 1, end, with) >= loss_) continue;
      ends_[part] = end;
      Place(part + 1, end, with);
    }
  }

  // A candidate with less loss than the best has sigma < loss * T, so that each part is at most
  // loss * T * sqrt(parts - 1) away from the mean; and overhead < loss * parts.
  double Spread() const { return loss_ * costs_.whole_us() * std::sqrt(parts_ - 1.0); }
  double LongestUs() const { return costs_.whole_us() * (1 + parts_ * loss_) / parts_ + Spread(); }

  /// No smaller end of the part that begins at `begin` is long enough.
  std::uint32_t FirstEnd(std::uint32_t begin) const {
    // A part has the mean of the ops' times at least, less the spread.
    const double wanted =
        costs_.BeforeUs(costs_.ops()) / parts_ - Spread() - costs_.CrossUs(begin) - most_cross_;
    std::uint32_t low = begin + 1;
    std::uint32_t high = costs_.ops();
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (costs_.BeforeUs(middle) - costs_.BeforeUs(begin) < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /// A lower bound of the loss of all candidates with these first parts, which end at `end`.
  double LeastLoss(std::uint32_t parts, std::uint32_t end, const Known& known) const {
    const double rest = parts_ - parts;
    const double call_us = costs_.CallUs();
    const double base =
        costs_.BeforeUs(costs_.ops()) - costs_.BeforeUs(end) + costs_.CrossUs(end) + rest * call_us;
    const double least_cross = rest > 1 ? 2 * (rest - 1) * least_cross_[end] : 0;
    const double most_cross = 2 * (rest - 1) * most_cross_;
    // The mean of the rest that is nearest to the mean of the known parts.
    const double mean = known.sum / parts;
    const double rest_mean =
        std::clamp(mean, (base + least_cross) / rest, (base + most_cross) / rest);
    const double away = rest_mean - mean;
    const double squares = known.squares - known.sum * mean + away * away * parts * rest / parts_;
    const double sigma = std::sqrt(std::max(squares, 0.0) / parts_);
    const double overhead = (known.sum + base + least_cross) / costs_.whole_us() - 1;
    return sigma / costs_.whole_us() + overhead / parts_;
  }

  const PartCosts& costs_;
  const std::uint32_t parts_;
  const std::uint64_t max_steps_;
  std::vector<double> least_cross_;
  double most_cross_ = 0;
  std::vector<std::uint32_t> ends_;
  std::vector<std::uint32_t> best_;
  double loss_;  // of best_: -fitness
  std::uint64_t steps_ = 0;
};

}  // namespace

Result<OptimalResult> OptimalParts(const SplitModel& model, std::uint32_t parts,
                                   const OptimalOptions& options) {
  LAGOON_RETURN_IF_ERROR(CheckParts(model, parts));
  const PartCosts costs(model);
  OptimalResult result;
  result.candidate.ends = LeastSquares(costs, parts);
  if (model.cost.mode == CutMode::kOnnx && parts > 1) {
    BranchAndBound search(costs, result.candidate.ends, options.max_steps);
    search.Run();
    result.candidate.ends = search.best();
    result.exact = search.exact();
    result.steps = search.steps();
  }
  result.candidate.shape = costs.Shape(result.candidate.ends);
  return result;
}

}  // namespace lagoon
