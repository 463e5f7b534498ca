#pragma once

// Placers on a simulated cluster (InSS 6): how many requests are answered in time, for how long
// they decide, and how exact the latency models are that they use.

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "bench/report/report.h"
#include "cluster/interference/latency_model.h"
#include "sim/cluster/inss_cluster.h"
#include "sim/cluster/placement_controller.h"
#include "sim/interference/fit.h"
#include "sim/placement/baseline_rows.h"

namespace lagoon::bench {

struct PlacementOptions {
  std::vector<std::string> placers = {};  // empty: all
  std::vector<std::size_t> gpus = {4};
  std::vector<double> loads = {0.6, 0.8, 1.0, 1.1, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0};
  int seeds = 6;
  double seconds = 180;  // of virtual time, of which the first third is not counted
  std::string interference = "ridge";
  std::string rates = "monitor";  // RateSource: monitor, last-second, oracle
  double margin = 0;              // standard errors added to the rates
  double busy = kBaselineBusy;    // BaselineOptions::busy
  std::size_t groups = 0;         // GPUs that decide on their own (GroupedPlacer); 0: all together
  bool paper_too = false;         // also the block "paper" (RunPlacement)
  bool exact = false;             // TruthSpec::Exact
  bool fill = false;              // InssOptions::fill
  bool online = true;             // PlacementOptions::online
  std::uint32_t seed = 1;
  int threads = 1;  // that simulate; they change no metric but the times of decisions
  // Of RunPlacer():
  bool paper = false;           // BaselineOptions::paper, and a change of a share costs a load
  bool every_decision = false;  // BaselineOptions::every_decision
};

/// Runs all placers in blocks. In the block "fair" all have the same shares, headroom and fitted
/// times, and a change of a share costs nothing. With `paper_too` there is the block "paper", as
/// InSS describes its baselines: BaselineOptions::paper, no headroom, and a changed share serves
/// when it is loaded (5.5: 2.6 s). Metrics: WritePlacementCurves(), and the errors of the latency
/// models. kInvalidArgument and kNotFound name the option and its value.
Status RunPlacement(const PlacementOptions& options, Report& report);

/// The errors of the kinds of latency models on measured co-runs that their fits have not seen
/// (PredictHeldOut), as metrics and as a table for people. `name`: of the points, for messages.
/// kInvalidArgument: PredictHeldOut, or no point has neighbours.
Status ReportPoints(const std::string& name, const std::vector<MeasuredPoint>& points,
                    Report& report, std::string& table);

/// What a run of one placer, load and seed gave.
struct PlacementRun {
  double goodput = 0;     // rows per second that were answered in time
  double throughput = 0;  // rows per second that were answered
  double violations = 0;  // part of the arrivals that were late or dropped
  double late = 0;        // part that were late
  /// As `violations`, of the models that the placer did not refuse at the start.
  double violations_of_served = 0;
  double worst_model = 0;  // violations of the worst model that was not refused
  double fragments = 0;
  double fragments_each = 0, capacity = 0, gpus_used = 0;  // as in SimReport
  double goodput_per_gpu = 0;                              // of those used
  double moves = 0;                                        // replicas that moved
  double busy = 0;  // part of the decisions in which a placement was still being carried out
  double mean_decision_ms = 0, longest_decision_ms = 0;
  double resnet50_ms = 0, vgg16_ms = 0;  // mean of the requests (InSS Fig. 13 and 14)
  std::vector<double> served_each_second;
};

/// One run. `models`: fitted, by network. kInvalidArgument, kNotFound: the placer's name.
Result<PlacementRun> RunPlacer(const std::string& placer, const InssOptions& cluster,
                               const LatencyModels& models, const PlacementOptions& options);

/// The latency models that are fitted to what the simulator of `cluster` shows.
Result<LatencyModels> FitToSimulator(const InssOptions& cluster, InterferenceKind kind);

}  // namespace lagoon::bench
