#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "bench/client/line_process.h"
#include "bench/robot/load.h"

namespace lagoon::bench {

/// A way to run several models in one program.
struct InProcessWay {
  const char* name;
  const char* what;              // for people
  const char* engine;            // of in_process_worker.py
  std::uint32_t threads = 0;     // of an ONNX Runtime session; 0: its default
  bool spinning = true;          // of ONNX Runtime's idle threads
  bool nice_neighbours = false;  // the other models have a process each, at nice 19
};
std::span<const InProcessWay> InProcessWays();

/// What starts the processes of a way.
struct InProcessPrograms {
  std::string python, worker;   // bench/comparators/in_process_worker.py
  std::string library, plugin;  // liblagoon.so, liblagoon_ort.so
  std::uint32_t workers = 0;    // of Lagoon's device; 0: one per core
};

/// What the models did in one window.
struct InProcessWindow {
  /// Of the control loop; empty where it did not run.
  std::vector<double> latencies_us;  // from the beginning of the period
  std::vector<double> runs_us;       // from the call
  int late = 0, given_up = 0, skipped = 0;
  /// By model of the load. Empty: it had no closed loop.
  struct Loop {
    std::vector<double> latencies_us;  // at least one
    double per_second = 0;             // of its own time
  };
  std::vector<Loop> loops;

  int missed() const { return late + given_up + skipped; }
};

/// Between two steps of the control loop.
Nanoseconds PeriodOf(const RobotLoad& load);

/// The processes of a way, with all models loaded and warm. One thread. The destructor ends them.
class RunningWay {
 public:
  /// The first model of `load` is the controller. Both must outlive the object.
  static Result<std::unique_ptr<RunningWay>> Open(const InProcessWay& way,
                                                  const InProcessPrograms& programs,
                                                  const RobotLoad& load);

  /// The answer of each process to "info".
  const std::vector<nlohmann::json>& info() const { return info_; }

  /// From soon on, for `length`: the models of `loops` in closed loops and, with `control`, the
  /// controller once in each period.
  Result<InProcessWindow> Window(bool control, const std::vector<std::size_t>& loops,
                                 Nanoseconds length);
  /// All models one after the other, on one thread. Latencies in microseconds, by model. Only where
  /// all are in one process.
  Result<std::vector<std::vector<double>>> InTurn(Nanoseconds length);
  bool one_process() const { return processes_.size() == 1; }
  /// Latencies in microseconds of a model that adds four numbers, each run `apart` after the one
  /// before.
  Result<std::vector<double>> Empty(int runs, Nanoseconds apart);

 private:
  RunningWay(const InProcessPrograms& programs, const RobotLoad& load)
      : programs_(programs), load_(load) {}

  Status Start(const InProcessWay& way, const std::vector<std::size_t>& models);

  struct Process {
    std::unique_ptr<LineProcess> process;
    std::vector<std::size_t> models;
  };
  const InProcessPrograms& programs_;
  const RobotLoad& load_;
  std::vector<Process> processes_;
  std::vector<nlohmann::json> info_;
};

}  // namespace lagoon::bench
