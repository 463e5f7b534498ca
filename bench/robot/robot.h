#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/client/comparator.h"
#include "bench/client/schedule_class.h"
#include "bench/report/report.h"
#include "plan/tensor.h"

namespace lagoon::bench {

/// What the real-time clients of a robot do.
struct RobotCase {
  std::string name;
  std::string what;   // for people
  std::string model;  // a file of the corpus, or an ONNX file
  double rate = 20;   // requests a second of each client, evenly spaced
  double deadline_ms = 50;
  int clients = 1;
  int burst = 1;  // requests at once, at every 20th arrival of a client
};
const std::vector<RobotCase>& RobotCases();

struct RobotOptions {
  std::string lagoon, client;           // the programs lagoon and lagoon-bench
  RobotCase scenario;                   // with `model` as an ONNX file
  std::vector<std::string> background;  // ONNX files
  std::map<std::string, Dims> shapes;   // by input, or by MODEL/INPUT; for inputs with open sizes
  std::vector<std::string> systems;     // RobotSystemName
  std::vector<std::string> transports = {"grpc"};         // of Lagoon: grpc, http, process
  ScheduleClass background_class = ScheduleClass::kIdle;  // of Lagoon's background clients
  std::uint32_t workers = 0;                              // 0: one per core
  int trials = 10;
  double seconds = 10;  // of a window
  std::uint32_t seed = 1;
  ComparatorOptions onnxruntime;
};

/// A real-time model whose clients are processes on the same cores as the server and as background
/// models in closed loops, against ONNX Runtime in a process for each model under what the
/// operating system offers. A trial of a system starts all its processes and has two windows: the
/// real-time clients alone, and all clients. Metrics, for a system S and a background model M:
///   robot_latency_normalized_p50.S, _p90, _p99   "both" over "alone"; p99 if a window has at least
///                                                100 requests; also S_low and S_high
///   robot_latency_ms_p50.S.alone, .both          and p90, p99, over all trials together
///   robot_late_fraction.S, .S.alone              requests over the deadline or failed
///   robot_background_per_second.S, .S.M          answers a second, in all and of M
///   robot_background_alone_per_second.M          of M alone, under the first setting of ONNX
///                                                Runtime (without one: the first system)
///   robot_background_work.S                      sum of each model's answers over those alone
///   robot_background_vs_best_os.S                that, over the best setting's (field best_os)
///   robot_failed_requests.S                      or not sent within twice the window, as those
///                                                before them took so long
///   windows_repeated
/// Latency counts from the intended arrival. Targets for Lagoon: p99 at most 1.10, none late, and
/// at least the background work of the best setting of the operating system.
Status RunRobot(const RobotOptions& options, Report& report);

}  // namespace lagoon::bench
