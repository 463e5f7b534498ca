#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
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
  /// A placer sees how much longer batches take than the models say (ModelView::slowdown, from
  /// OnlineCorrection).
  bool online = false;
  /// The judge's rules. ClusterSpec::decision replaces `period`; decisions take no time here.
  PlacementRules rules = {};
};

/// Lets a placer decide about the replicas of a simulated cluster, each ClusterSpec::decision, and
/// the fleet's judge (PlacementJudge) whether they move. A new assignment is carried out in steps:
/// replicas that come are loaded, which takes memory only; then shares shrink, those that leave go,
/// and those that came serve; then shares grow. What has no room yet follows at a later decision,
/// and until all is done the placer is not asked again. An assignment that finds no memory for the
/// copies that it needs on the way is given up.
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
  /// Assignments that could not be carried out, because the memory for both copies is missing.
  std::uint64_t given_up() const { return given_up_; }
  const std::string& last_error() const { return last_error_; }

 private:
  PlacementView ViewOf(const ClusterSpec& spec) const;
  void ReadRates(const ClusterSim& sim);
  double RateOf(const ClusterSpec& spec, std::size_t model, Nanoseconds now) const;
  Assignment Current(const ClusterSim& sim) const;
  bool Apply(ClusterSim& sim);
  bool GiveUp(ClusterSim& sim);
  bool ApplyShares(ClusterSim& sim, bool shrink);
  std::vector<std::size_t> Leaving(const ClusterSim& sim) const;
  bool Load(ClusterSim& sim);
  bool Exchange(ClusterSim& sim);
  bool HasRoomFor(const ClusterSim& sim, std::size_t gpu, const std::vector<std::size_t>& coming,
                  const std::vector<std::size_t>& leaving) const;
  bool IsLoading(const ClusterSim& sim) const;
  bool IsBeingLoaded(const ClusterSim& sim) const;

  Placer& placer_;
  const PlacementOptions options_;
  PlacementJudge judge_;
  std::vector<Ewma> rates_;                    // rows per second
  std::vector<double> last_rates_;             // of the last interval
  std::vector<std::uint64_t> arrived_;         // until the last decision
  std::vector<OnlineCorrection> corrections_;  // by model
  std::vector<Ewma> batch_ms_;                 // by model, as measured
  Nanoseconds last_{0};
  Assignment target_;
  bool done_ = true;                // `target_` is carried out
  std::set<std::size_t> replaced_;  // replicas with a successor that loads or has been loaded
  int stuck_ = 0;  // decisions in a row in which the memory for a replica was missing
  std::uint64_t refused_assignments_ = 0, decisions_ = 0, busy_decisions_ = 0, given_up_ = 0;
  std::string last_error_;
};

}  // namespace lagoon
