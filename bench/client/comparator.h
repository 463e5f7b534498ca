#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "bench/client/input_file.h"
#include "bench/client/line_process.h"

namespace lagoon::bench {

struct ComparatorOptions {
  std::string python;                  // with the engine installed
  std::string worker;                  // bench/comparators/comparator_worker.py
  std::string engine = "onnxruntime";  // or "openvino", or "lagoon": `lagoon` runs the model
  std::string lagoon;                  // the program lagoon-bench
  std::string level;                   // of instructions, for "lagoon"; empty: that of this process
  int threads = 0;                     // 0: the engine's default
  bool spinning = true;
  std::string cpus;  // cores that the process may use, "0,1"; empty: all
  int nice = 0;
  std::string policy = "normal";  // or "idle" (SCHED_IDLE), "fifo" (SCHED_FIFO, needs permission)
  std::int64_t batch = 1;         // size of dimensions that the file calls "batch"
  std::vector<InputFile> inputs = {};  // the others get random values, and 1 for open sizes
};

/// ONNX Runtime or OpenVINO with one model in a process of its own, as a user runs two models side
/// by side today; or Lagoon (bench/process/model_worker.h), which has only Run(). One thread. The
/// destructor ends the process.
class ComparatorProcess {
 public:
  static Result<std::unique_ptr<ComparatorProcess>> Start(const std::string& model,
                                                          const ComparatorOptions& options);

  const std::string& engine() const { return engine_; }
  const nlohmann::json& info() const { return info_; }
  pid_t pid() const { return process_->pid(); }

  /// Does `warmup` untimed runs, then `runs` timed ones back to back. Returns the latencies of the
  /// timed runs in microseconds.
  Result<std::vector<double>> Run(int runs, int warmup);

  /// One tensor of a run, as raw bytes.
  struct Values {
    std::string name;
    std::vector<std::byte> bytes;
  };
  struct Example {
    std::vector<Values> inputs, outputs;
  };
  /// One run on the process's own random inputs.
  Result<Example> RunExample();

  // A window shared with other processes: Begin...() returns at once, End...() waits for the end of
  // the window.
  /// `newest`: the process skips arrivals that a newer one has overtaken, as DISB's client does. No
  /// run begins after `give_up`: the arrivals that are left have no latencies.
  Status BeginOpenLoop(TimePoint start, const std::vector<double>& arrivals_us, bool newest = false,
                       TimePoint give_up = kNoDeadline);
  /// The requests of an open loop, in microseconds.
  struct OpenLoop {
    std::vector<double> latencies_us;     // from the intended arrival; newest: from the call
    std::vector<double> from_arrival_us;  // from the intended arrival
    std::vector<double> ends_us;          // after `start`
  };
  Result<OpenLoop> EndOpenLoop();
  Status BeginLoop(TimePoint start, TimePoint end);
  /// Completions, in microseconds after `start`.
  Result<std::vector<double>> EndLoop();

 private:
  ComparatorProcess(std::string engine, std::unique_ptr<LineProcess> process)
      : engine_(std::move(engine)), process_(std::move(process)) {}

  const std::string engine_;
  std::unique_ptr<LineProcess> process_;
  nlohmann::json info_;
};

}  // namespace lagoon::bench
