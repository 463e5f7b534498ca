#pragma once

// What a placement is worth by the forecast, with the interference that there is.

#include "cluster/placement/placer.h"

namespace lagoon {

struct Judged {
  double reward = 0;       // sum over the replicas, Stages::RewardOf()
  double violations = 0;   // part of a replica's requests, mean over the replicas
  double of_models = 0;    // part of a model's requests, mean over the models; refused: 1
  double of_requests = 0;  // part of all requests; those of refused models are lost
};

/// `assignment`: of `view`, in whole granules.
Judged Judge(const PlacementView& view, const Assignment& assignment);

/// Of the placement that the networks should beat: each replica goes to the GPU with the least
/// need, and shares are in proportion to the needs. `view`: of 1 to kGroups GPUs. `interference`:
/// as far as the needs know.
Judged Guess(const PlacementView& view, bool interference);

}  // namespace lagoon
