#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "base/time.h"
#include "plan/plan.h"

namespace lagoon {

/// Gives a plan, whose costs are known, the parts that model parameter `lagoon.parts` asks for:
/// those that it has from its profile if their number is right, else those that a search finds
/// (SetParts). `parts`: kAutoParts, a number, or nothing if the parameter is not set. `several`:
/// data decide the shapes of the model, so that it runs as several plans. The search is
/// deterministic and takes milliseconds. kUnimplemented: several plans. kInvalidArgument: the plan
/// has too few ops. After an error the plan has no parts. Errors name the model and the
/// parameter's value.
Status ApplyParts(std::optional<std::uint32_t> parts, bool several, Plan& plan);

/// Cuts a plan that takes longer alone than `longest` into as many parts as are best, as kAutoParts
/// does. It is for models without lagoon.parts. A plan that has parts keeps them, and one that
/// cannot be cut stays whole. 0: nothing is cut.
void CutIfLong(Nanoseconds longest, bool several, Plan& plan);

}  // namespace lagoon
