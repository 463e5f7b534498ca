#pragma once

#include "base/status.h"
#include "plan/plan.h"

namespace lagoon {

/// Proves of a plan that it is safe to run in any order that its dependencies allow:
/// - dependencies point backwards; ranges lie in their regions; only the arena is written;
/// - pointers of an op's arguments lie in its access sets;
/// - no op writes a graph input, or bytes that it reads, except the very range that an in-place op
///   replaces;
/// - two ops that no dependency orders never touch the same bytes unless both only read;
/// - what an op or a graph output reads was written before, by an op that it depends on or as a
/// graph
///   input, and by the ops that the output names last.
/// kInternal names the first pair of ops and the bytes that break it. Quadratic in ops.
Status CheckPlan(const Plan& plan);

}  // namespace lagoon
