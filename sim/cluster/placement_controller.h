#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/ewma.h"
#include "cluster/placement/placement_judge.h"
#include "cluster/placement/placer.h"
#include "sim/cluster/cluster_sim.h"
#include "sim/interference/fit.h"

namespace lagoon {

/// How well a scheduler knows the arrival rates.
enum class RateSource : std::uint8_t {
  kMonitor,     // average of the seconds so far, exponentially weighted with 0.3
  kLastSecond,  // of the last decision interval
  kOracle,      // the truth: ArrivalSpec::rates
};

struct PlacementOptions {
  /// By index of the model; what the placer knows of it. Borrowed.
  std::vector<const LatencyModel*> latency;
  RateSource rates = RateSource::kMonitor;
  /// Standard errors that are added to a rate.
  double margin = 0;
  /// The models' latencies are corrected by what is measured (OnlineCorrection): a placer sees an
  /// SLO that is smaller by this factor.
  bool online = false;
  /// The judge's rules. ClusterSpec::decision replaces `period`; decisions take no time here.
  PlacementRules rules = {};
};

/// Lets a placer decide about the replicas of a simulated cluster, each ClusterSpec::decision, and
/// the fleet's judge (PlacementJudge) whether they move. A new assignment is carried out step by
/// step: shares shrink, replicas move (the old one serves until the new one is loaded), others come
/// and go; what has no room yet follows at a later decision, and until all is done the placer is
/// not asked again.
class PlacementController final : public SimController {
 public:
  /// `placer` is borrowed.
  PlacementController(Placer& placer, PlacementOptions options);

  /// The assignment for the start of `spec`, from the rates of its beginning, as replicas with
  /// batch limits. kInvalidArgument and kResourceExhausted: CheckView, CheckAssignment.
  Status Start(ClusterSpec& spec);

  void Decide(ClusterSim& sim) override;
  void OnBatch(ClusterSim& sim, const BatchEnded& batch) override;

  /// Assignments that the judge found broken; the one before stays.
  std::uint64_t refused_assignments() const { return refused_assignments_; }
  std::uint64_t decisions() const { return decisions_; }
  /// Decisions in which the placer was not asked, because the last one was not carried out yet.
  std::uint64_t busy_decisions() const { return busy_decisions_; }
  const std::string& last_error() const { return last_error_; }

 private:
  PlacementView ViewOf(const ClusterSpec& spec) const;
  void ReadRates(const ClusterSim& sim);
  double RateOf(const ClusterSpec& spec, std::size_t model, Nanoseconds now) const;
  Assignment Current(const ClusterSim& sim) const;
  bool Apply(ClusterSim& sim);
  bool ApplyShares(ClusterSim& sim, bool shrink);
  bool ApplyPlaces(ClusterSim& sim);
  bool IsLoading(const ClusterSim& sim, std::size_t model) const;

  Placer& placer_;
  const PlacementOptions options_;
  PlacementJudge judge_;
  std::vector<Ewma> rates_;                    // rows per second
  std::vector<double> last_rates_;             // of the last interval
  std::vector<std::uint64_t> arrived_;         // until the last decision
  std::vector<OnlineCorrection> corrections_;  // by model
  Nanoseconds last_{0};
  Assignment target_;
  bool done_ = true;  // `target_` is carried out
  std::uint64_t refused_assignments_ = 0, decisions_ = 0, busy_decisions_ = 0;
  std::string last_error_;
};

}  // namespace lagoon
