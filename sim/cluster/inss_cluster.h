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

/// What a scheduler may measure of a model before it serves (InSS 4.1: 16 runs alone, "4 options of
/// resource allocation and 4 options of batch size", and "three sets of multiple parallel runs").
struct MeasuringPlan {
  std::vector<std::int64_t> rows = {};
  std::vector<double> shares = {};
  /// The model itself beside others, and its neighbours: light, medium and heavy, which are the
  /// models with the least, the middle and the most load on the memory.
  std::int64_t own_rows = 16;
  double own_share = 0.4;
  struct Side {
    std::int64_t rows = 1;
    double share = 1;
  };
  Side light = {}, medium = {}, heavy = {};
  /// false: {light}, {medium}, {heavy}. true: {light}, {light, medium}, {light, medium, heavy}, so
  /// that the fit sees how the slowdown saturates.
  bool nested = false;

  /// 1, 4, 16, 32 rows on 20, 40, 60, 80 %, and one neighbour each.
  static MeasuringPlan Narrow();
  /// 1, 4, 12, 32 rows on 10, 25, 50, 100 %, and up to three neighbours: nothing that is predicted
  /// lies beyond what was measured.
  static MeasuringPlan Wide();
};

/// The runs of `plan`, in the simulator, for each model. The first model of several copies is
/// measured; names have no suffix.
std::vector<MeasuredPoint> MeasureInSimulator(const std::vector<ModelSpec>& models,
                                              const TruthSpec& truth, std::uint32_t seed,
                                              const MeasuringPlan& plan = MeasuringPlan::Narrow());

/// `count` measurements with one to three neighbours, drawn at random: what predictions are
/// compared with.
std::vector<MeasuredPoint> DrawCoRuns(const std::vector<ModelSpec>& models, const TruthSpec& truth,
                                      std::size_t count, std::uint32_t seed);

/// A model's run in MeasureRuns().
struct SimulatedRun {
  std::string network;
  std::int64_t rows = 1;
  double share = 1;
};
/// The mean time of 40 batches of the first of `runs` while the others run, each in a closed loop.
/// kNotFound names a network that `models` does not have. The shares together are at most 1.
Result<MeasuredPoint> MeasureRuns(const std::vector<ModelSpec>& models, const TruthSpec& truth,
                                  const std::vector<SimulatedRun>& runs, std::uint32_t seed);
/// By what part of its time alone the first of `runs` is slower beside the others. kNotFound: as
/// MeasureRuns().
Result<double> SlowdownInSimulator(const std::vector<ModelSpec>& models,
                                   const std::vector<SimulatedRun>& runs, std::uint32_t seed,
                                   const TruthSpec& truth = {});

/// The name without the suffix of a further copy: "R" of "R.2".
std::string NetworkOf(const std::string& model);

}  // namespace lagoon
