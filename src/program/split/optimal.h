#pragma once

// The best parts, without a search by chance: the reference for SearchParts().

#include <cstdint>

#include "base/status.h"
#include "program/split/search.h"

namespace lagoon {

struct OptimalOptions {
  /// Bound for the number of cuts that are tried in mode kOnnx, about 10 ns each.
  std::uint64_t max_steps = 200'000'000;
};

struct OptimalResult {
  SplitCandidate candidate;
  /// No other candidate has a larger fitness. False: the bound of OptimalOptions was reached, and
  /// the candidate is the best one so far.
  bool exact = true;
  std::uint64_t steps = 0;
};

/// The `parts` parts of `model` with the largest fitness.
/// - A dynamic programme over (position, parts) minimises the sum of the squares of the parts'
///   times, in O(parts * ops^2). In mode kPlan all candidates of equal `parts` have equal overhead,
///   so that this is the largest fitness.
/// - In mode kOnnx the overhead differs, too. Branch and bound goes on from the programme's result.
/// kInvalidArgument: as SearchParts.
Result<OptimalResult> OptimalParts(const SplitModel& model, std::uint32_t parts,
                                   const OptimalOptions& options = {});

}  // namespace lagoon
