#pragma once

// What the learned placer is trained on: sets of models with random times, interference, SLOs and
// rates. The ranges contain the models of the papers (InSS Tables 3 and 4, GSLICE Table 5), so that
// the placer knows models as such, not a certain set of ten.

#include <cstdint>
#include <deque>
#include <vector>

#include "base/random.h"
#include "cluster/placement/placer.h"

namespace lagoon {

struct TrainingRanges {
  std::size_t gpus = 4;
  std::size_t fewest_models = 6, most_models = 12;
  double least_load = 0.3, most_load = 2.2;  // 1: the models need 60 % of the GPUs
  double published = 0.5;      // part of the episodes with the models of InSS on an A100
  double scarce_memory = 0.2;  // part of the episodes in which memory is for few replicas only
};

/// The models of an episode with rates that change from second to second.
class TrainingEpisode {
 public:
  TrainingEpisode(const TrainingRanges& ranges, Random& random);
  TrainingEpisode(const TrainingEpisode&) = delete;  // views point to the latency models
  TrainingEpisode& operator=(const TrainingEpisode&) = delete;

  PlacementView& view() { return view_; }
  const PlacementView& view() const { return view_; }
  /// The next second: each rate moves by 5 % of itself (standard deviation), within half and one
  /// and a half of its first value.
  void Walk(Random& random);

 private:
  void AddModel(Random& random);
  void AddPublished(Random& random);
  void Add(ModelView model, Surface surface, double cache, double dram, Random& random);
  void ScaleRates(const TrainingRanges& ranges, Random& random);

  std::deque<LatencyModel> latencies_;
  std::vector<double> first_rates_;
  PlacementView view_;
};

}  // namespace lagoon
