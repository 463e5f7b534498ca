#pragma once

// What a search for the parts of a model (SPLIT 3.3) knows of the model: the time of each op, and
// the bytes that cross each position. Plain data, so that tests and benchmarks can make it up.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace lagoon {

/// What a cut costs.
enum class CutMode : std::uint8_t {
  kPlan,  // activations stay in the arena: each cut costs one bubble on the device
  kOnnx,  // each part is a model of its own: its inputs and outputs are copied, and it is called
};

/// The constants of both modes. docs/guide/splitting.md says how the defaults were measured.
struct CutCost {
  CutMode mode = CutMode::kPlan;
  double bubble_us = 10;       // kPlan: between two parts, one event and one submission
  double bytes_per_us = 6600;  // kOnnx: at which a part's inputs and outputs are copied
  double session_us = 30;      // kOnnx: for each part, to call the engine
};

struct SplitModel {
  std::vector<double> op_us;  // time of each op alone on the device, in order of execution
  /// By position: the bytes that are written or given before op p and read by op p or a later one.
  /// One more entry than `op_us`. Empty: no bytes. The first and the last entry are not used,
  /// because a whole model also gets its inputs and returns its outputs.
  std::vector<double> boundary_bytes;
  CutCost cost;

  std::uint32_t ops() const { return static_cast<std::uint32_t>(op_us.size()); }
};

/// The bytes of the arena that cross each position of a plan, as in SplitModel: values that an op
/// before the position writes, or graph inputs, which an op behind the position reads. A value that
/// several ops read counts once. ops.size() + 1 entries.
std::vector<double> BoundaryBytes(const Plan& plan);

/// By op: the nodes of a graph that are complete after the op, as indexes in `nodes`, their names.
/// The ops of a node have the node's name, perhaps with suffixes (".gates"). A node without ops (a
/// view) is left out.
std::vector<std::vector<std::size_t>> NodesByLastOp(const Plan& plan,
                                                    std::span<const std::string> nodes);

/// The model with its ops joined to runs that end at `ends` (as Plan::part_ends): it is cut only
/// there.
SplitModel JoinOps(const SplitModel& model, std::span<const std::uint32_t> ends);

/// The plan's costs (profiled, or else estimates) and its boundary bytes.
SplitModel SplitModelOf(const Plan& plan, const CutCost& cost = {});

}  // namespace lagoon
