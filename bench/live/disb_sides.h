#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/client/bound_model.h"
#include "bench/client/clients.h"
#include "bench/client/onnxruntime_beside.h"
#include "bench/disb_run.h"
#include "bench/live/disb.h"

namespace lagoon::bench {

/// The windows of a trial of DISB, which are compared with each other.
enum DisbPart : std::size_t { kAlone, kAll };
inline const std::vector<std::string> kDisbParts = {"real-time alone", "all"};

/// The models of a workload on a device of Lagoon. One thread.
class LagoonSide {
 public:
  static Result<std::unique_ptr<LagoonSide>> Open(const DisbOptions& options);

  const StandaloneTimes& standalone() const { return standalone_; }

  /// Measures one window under a scheduler.
  Status Measure(const std::string& scheduler, DisbLoad::Late late, const DisbWindow& window,
                 DisbPart part, SystemResult& seen);

 private:
  explicit LagoonSide(const DisbOptions& options) : options_(options) {}
  Status MeasureStandalone(const std::string& name, BoundModel& model);
  std::vector<ClientResult> Run(Dispatcher& dispatcher, const std::vector<QueueId>& queues,
                                const DisbWindow& window, bool newest, bool best_effort);

  const DisbOptions& options_;
  // Declared before the device, so that they outlive it: its threads use the models' memory.
  std::vector<std::unique_ptr<BoundModel>> models_;  // by client
  ComputeDevice on_;
  StandaloneTimes standalone_;
};

/// ONNX Runtime in a process for each client of a workload. One thread.
class OnnxRuntimeSide {
 public:
  /// `setting`: of kOsSettings.
  static Result<std::unique_ptr<OnnxRuntimeSide>> Open(const DisbOptions& options,
                                                       const std::string& setting);

  const StandaloneTimes& standalone() const { return standalone_; }

  Status Measure(DisbLoad::Late late, const DisbWindow& window, DisbPart part, SystemResult& seen);

 private:
  explicit OnnxRuntimeSide(const DisbOptions& options) : options_(options) {}
  Status MeasureStandalone();
  Result<ClientResult> End(std::size_t client, const DisbWindow& window);

  const DisbOptions& options_;
  std::unique_ptr<OnnxRuntimeBeside> processes_;  // by client
  StandaloneTimes standalone_;
};

}  // namespace lagoon::bench
