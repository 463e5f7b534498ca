#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "bench/robot/load.h"

namespace lagoon::bench {

/// What serves the models of a robot, as the command line and the report name it.
struct RobotSystemName {
  std::string name;       // lagoon:SCHEDULER, lagoon:SCHEDULER@TRANSPORT, onnxruntime:SETTING
  std::string scheduler;  // of Lagoon
  std::string transport;  // of Lagoon
  std::string setting;    // of ONNX Runtime: plain, nice19, idle, cgroup, fifo

  bool lagoon() const { return setting.empty(); }
};

/// The systems of these words, Lagoon's with each transport. If there are several transports, the
/// name has it. kInvalidArgument names a word that is no system.
Result<std::vector<RobotSystemName>> ParseRobotSystems(const std::vector<std::string>& words,
                                                       const std::vector<std::string>& transports);

/// Streams of requests during one window, by stream of the load. All streams that are `active` run
/// from `start`; what counts begins at `begin`.
struct RobotWindow {
  std::vector<bool> active;
  std::vector<std::vector<double>> arrivals_us;  // of the real-time streams, after `begin`
  TimePoint start, begin, end;

  /// No request is sent from then on: one that had to wait so long was late anyway.
  TimePoint give_up() const { return end + (end - begin); }
};

/// What one stream got in a window. Empty if it was not active.
struct StreamAnswers {
  std::vector<double> latencies_ms;  // real-time, from the intended arrivals
  double per_second = 0;             // background
  int failed = 0;
  int unsent = 0;     // real-time requests that did not get their turn before give_up()
  std::string error;  // why the last failed request has failed
};

/// All processes of a system, which have answered requests. The destructor ends them.
class RobotSystem {
 public:
  virtual ~RobotSystem() = default;
  /// By stream.
  virtual Result<std::vector<StreamAnswers>> Measure(const RobotWindow& window) = 0;
};

Result<std::unique_ptr<RobotSystem>> OpenRobotSystem(const RobotSystemName& system,
                                                     const RobotOptions& options,
                                                     const RobotLoad& load);

}  // namespace lagoon::bench
