#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace lagoon::bench {

struct OnnxRuntimeOptions {
  std::string python;  // with onnxruntime installed
  std::string worker;  // bench/comparators/onnxruntime_worker.py
  int threads = 0;     // 0: its default
  bool spinning = true;
  std::string cpus;  // "0,1"; empty: all
  int nice = 0;
  std::int64_t batch = 1;  // size of dimensions that the file calls "batch"
};

/// ONNX Runtime with one model in a process of its own, as a user would run it beside another.
/// One thread. The process ends with this object.
class OnnxRuntimeProcess {
 public:
  static Result<std::unique_ptr<OnnxRuntimeProcess>> Start(const std::string& model,
                                                           const OnnxRuntimeOptions& options);
  ~OnnxRuntimeProcess();
  OnnxRuntimeProcess(const OnnxRuntimeProcess&) = delete;
  OnnxRuntimeProcess& operator=(const OnnxRuntimeProcess&) = delete;

  const nlohmann::json& info() const { return info_; }

  /// `runs` back to back after `warmup` untimed ones: latencies in microseconds.
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

  // A window shared with other processes: Begin... returns at once, End... waits for the answer.
  Status BeginOpenLoop(TimePoint start, const std::vector<double>& arrivals_us);
  Result<std::vector<double>>
  EndOpenLoop();  // latencies from the intended arrival, in microseconds
  Status BeginLoop(TimePoint start, TimePoint end);
  Result<std::vector<double>> EndLoop();  // completions in microseconds after `start`

 private:
  OnnxRuntimeProcess() = default;
  Status Send(const nlohmann::json& command);
  Result<nlohmann::json> Receive();

  std::string model_;
  pid_t pid_ = -1;
  int to_ = -1;
  std::FILE* from_ = nullptr;
  nlohmann::json info_;
};

}  // namespace lagoon::bench
