#pragma once

// How many parts a model gets if its configuration does not say it.

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "plan/parts.h"
#include "program/split/search.h"

namespace lagoon {

struct ChooseOptions {
  std::uint32_t most = 4;  // parts that are tried, from 2; Table 3 of the paper has 2 to 4
  /// Fitness within this of the best is as good: costs are known no better. The largest number of
  /// parts among these is chosen, because its parts are the shortest (Eq. 1). 0: Eq. 2 alone.
  double tie = 0.005;
  SearchOptions search;
};

struct PartsChoice {
  std::vector<std::uint32_t> parts;  // numbers that were tried, ascending
  std::vector<SplitResult> results;  // by the same index
  std::size_t chosen = 0;            // index in both
};

/// Searches every number of parts from 2 to options.most and chooses one of them by Eq. 2.
/// kInvalidArgument: the model has one op, options.most is below 2, or as SearchParts.
Result<PartsChoice> ChooseParts(const SplitModel& model, const ChooseOptions& options = {});

/// Index of the number of parts that Eq. 2 chooses. `fitness`: by number of parts, ascending; not
/// empty.
std::size_t ChooseByFitness(std::span<const double> fitness, double tie);

/// Whether a model is long, and so worth parts: its time is more than twice that of the shortest
/// model that it shares the device with (in Table 1 of the paper, ResNet-50 and VGG-19 are).
bool IsLong(Nanoseconds whole, Nanoseconds shortest);

/// Gives the plan `parts` parts, or as many as ChooseParts() says (kAutoParts). 1: none.
/// kInvalidArgument: as SearchParts and ChooseParts; the message names the model.
/// kUnimplemented: the plan cannot be cut: its ops have engines.
Status SetParts(Plan& plan, std::uint32_t parts, const CutCost& cost = {},
                const ChooseOptions& options = {});

}  // namespace lagoon
