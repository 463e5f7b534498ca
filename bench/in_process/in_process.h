#pragma once

#include <map>
#include <string>
#include <vector>

#include "bench/in_process/ways.h"
#include "bench/report/report.h"

namespace lagoon::bench {

struct InProcessOptions {
  InProcessPrograms programs;
  RobotOptions load;              // the scenario's model is the controller; and the background
  std::vector<std::string> ways;  // names of InProcessWays()
  int rounds = 6;                 // trials of each way; fewer decide no target
  int steps = 6000;               // of the control loop beside the others, all trials together
  double seconds = 0.5;           // of each other window
  /// The plug-in by others' tests, with bench/comparators/ort_judge.py; an empty `judge`: not.
  std::string judge;
  std::string files;   // of the corpus
  std::string corpus;  // ids with * and ?; empty: none
  std::string nodes;   // node tests with this text in their name; "all", "none"
};

/// The names of InProcessWays() among `words`, or a kInvalidArgument that names the first that is
/// none.
Result<std::vector<InProcessWay>> ParseInProcessWays(const std::vector<std::string>& words);

/// Several models in one program, in each of several ways: a controller in a loop of fixed rate,
/// and others that run without a pause. A trial of a way starts its processes and measures each
/// model alone, all models one after the other on one thread, all at once, and a model that adds
/// four numbers. Metrics, for a way W and a model M:
///   together_over_alone.W.M     median latency, all at once over alone; the controller's counts
///                               from the beginning of its period
///   missed_deadlines.W          steps beside the others without an answer by the end of their
///                               period, of control_steps.W; missed_alone.W without the others
///   missed_fraction.W           the same as a part of the steps
///   control_us_p50.W, _p99, _max, and .W.alone
///   per_second.W.M              runs of a neighbour, all at once; work.W: the sum of each
///                               neighbour's runs, over those alone under the same way
///   alone_ms_p50.W.M            median latency alone
///   in_turn_over_alone.W        sum of the median latencies, one after the other over alone
///   added_us_p50.W, _p99.W      a run that computes next to nothing, back to back
///   added_apart_us_p50.W        the same, each a millisecond after the one before
///   plugin_corpus_ratio_geomean  the plug-in's latency over ONNX Runtime's; also
///                               plugin_corpus_models, _right, _undecided, _wrong, _refused, and
///                               plugin_corpus_ratio.ID
///   plugin_node_tests_failed    node tests of ONNX that pass without the plug-in and not with it;
///                               also plugin_node_tests, plugin_node_tests_whole
Status RunInProcess(const InProcessOptions& options, Report& report);

}  // namespace lagoon::bench
