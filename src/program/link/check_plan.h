#pragma once

#include <memory>
#include <span>

#include "base/status.h"
#include "plan/plan.h"

namespace lagoon {

/// Proves that a plan over these `weights` is safe in any order that its dependencies allow:
/// - dependencies point backwards; ranges lie in their regions; only the arena is written;
/// - pointers in an op's arguments lie in its access sets;
/// - no op writes a graph input, or bytes that it reads, except the exact range that an in-place op
///   replaces;
/// - two ops that no dependency orders never touch the same bytes, unless both only read them;
/// - what an op reads was written before, by an op that it depends on or as a graph input; what a
///   graph output reads was written by the ops that the output names.
/// kInternal names the first pair of ops that breaks a rule, and the bytes. Quadratic in the number
/// of ops.
Status CheckPlan(const Plan& plan, std::span<const std::shared_ptr<const WeightChunk>> weights);

}  // namespace lagoon
