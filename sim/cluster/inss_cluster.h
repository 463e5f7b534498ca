#pragma once

// The cluster on which InSS is evaluated (6.1), as a simulation: A100s, ten models for each four of
// them, and rates that change. What the paper leaves open (arrival rates, which two models are
// there twice, memory) is chosen here; docs/results/reproduction.md lists the readings.

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "sim/cluster/cluster_spec.h"
#include "sim/interference/measured_points.h"

namespace lagoon {

struct InssOptions {
  std::size_t gpus = 4;  // 1 to 1024
  /// 1: the models need 60 % of the GPUs if each has its knee (at 8 rows).
  double load = 1;
  /// Standard deviation of the relative change of a model's rate in a second. The rate stays
  /// between half and one and a half of its mean.
  double drift = 0.05;
  bool fill = false;  // BatchingSpec::fill: wait for full batches, as InSS does (4.2)
  TruthSpec truth = {};
  std::uint32_t seed = 1;
  Nanoseconds length = std::chrono::seconds(60);
  Nanoseconds warmup = std::chrono::seconds(5);
};

inline constexpr std::uint32_t kA100Granules = 54;  // of two SMs each

/// Models and GPUs; no replicas yet. Ten models for four GPUs (in proportion for other numbers, at
/// least one): A, R, V, M, M1, E, R1, V1, and R and V once more.
ClusterSpec InssCluster(const InssOptions& options);

/// A model's rate at load 1, in rows per second, by index in `spec`, which InssCluster() made.
std::vector<double> InssBaseRates(const ClusterSpec& spec);

/// What a scheduler may measure of the models before it serves (InSS 4.1), in the simulator: each
/// model alone with 1, 4, 16 and 32 rows on 20, 40, 60 and 80 % of a GPU, and with 16 rows on 40 %
/// beside a light neighbour (4 rows on 20 %), a medium (16 on 40 %) and a heavy one (32 on 60 %).
/// The first model of several copies is measured; names have no suffix.
std::vector<MeasuredPoint> MeasureInSimulator(const std::vector<ModelSpec>& models,
                                              const TruthSpec& truth, std::uint32_t seed);

/// `count` measurements with one to three neighbours, drawn at random: what predictions are
/// compared with.
std::vector<MeasuredPoint> DrawCoRuns(const std::vector<ModelSpec>& models, const TruthSpec& truth,
                                      std::size_t count, std::uint32_t seed);

/// A model's run in SlowdownInSimulator().
struct SimulatedRun {
  std::string network;
  std::int64_t rows = 1;
  double share = 1;
};
/// By what part of its time alone the first of `runs` is slower beside the others, with the truth
/// of TruthSpec{}. kNotFound names a network that `models` does not have.
Result<double> SlowdownInSimulator(const std::vector<ModelSpec>& models,
                                   const std::vector<SimulatedRun>& runs, std::uint32_t seed);

/// The name without the suffix of a further copy: "R" of "R.2".
std::string NetworkOf(const std::string& model);

}  // namespace lagoon
