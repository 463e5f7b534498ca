#pragma once

// The genetic search for even parts (SPLIT 3.3). The paper gives no constants but 15 generations;
// the others are Lagoon's choice. Lagoon adds two things, without which the search misses the
// optimum of 4 parts by more than 1 % in a third of the cases:
// - A child that was tried already moves on to a neighbour.
// - Evaluations that the generations leave over go into a descent from the last generation.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "program/split/split_shape.h"

namespace lagoon {

struct SearchOptions {
  int generations = 15;  // at most; the first one is drawn, the others are bred
  int patience = 5;      // stops after as many generations without a better one
  std::uint32_t seed = 1;
  std::size_t population = 64;
  std::size_t elite = 4;  // the best ones that are in the next generation as they are
  std::size_t tournament = 3;
  double crossover = 0.9;
  double mutation = 0.3;  // probability for each cut
  /// Distance by which a first cut may miss its even share of the time, as a share of the time.
  double jitter = 0.15;
  double uniform_share = 0.1;  // of the first generation, which is drawn without that rule
  int evaluations = 1024;      // bound of the descent; the generations take 904 of them at most
  bool descend = true;         // false: the generations alone
  std::size_t keep = 3;        // number of SplitResult::best
};

struct SplitCandidate {
  std::vector<std::uint32_t> ends;  // as Plan::part_ends
  SplitShape shape;
};

/// The best candidate after a generation (Figure 5 of the paper).
struct GenerationBest {
  double sigma_us = 0;
  double overhead = 0;
  double fitness = 0;
};

struct SplitResult {
  /// Different candidates, the best one first. At least one, at most SearchOptions::keep.
  std::vector<SplitCandidate> best;
  std::vector<GenerationBest> generations;  // in order; as many as there were
  int found_in = 0;                         // generation, from 1, that had the best candidate first
  int evaluations = 0;                      // candidates whose fitness was computed
};

/// kInvalidArgument: `parts` is 0 or more than the model has ops; the message has both numbers.
Status CheckParts(const SplitModel& model, std::uint32_t parts);

/// Searches `parts` parts of `model`. Deterministic: equal arguments give equal results on every
/// machine with the same floating-point arithmetic. Milliseconds, whatever the number of ops.
/// kInvalidArgument: as CheckParts, or `options.generations` is below 1.
Result<SplitResult> SearchParts(const SplitModel& model, std::uint32_t parts,
                                const SearchOptions& options = {});

}  // namespace lagoon
