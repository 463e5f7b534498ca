#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/client/bound_model.h"
#include "bench/report/report.h"
#include "bench/split/answers.h"
#include "bench/split/options.h"
#include "bench/split/scenario.h"
#include "program/open_device.h"

namespace lagoon::bench {

/// The models of SPLIT's scenarios on one real device, profiled, alone measured, and long ones in
/// parts. One thread.
class LagoonModels {
 public:
  /// `names`: folders of the zoo.
  static Result<std::unique_ptr<LagoonModels>> Open(const std::string& zoo,
                                                    const std::vector<std::string>& names,
                                                    const DeviceChoice& device);

  const std::vector<double>& alone_ms() const { return alone_ms_; }  // by model

  /// By model: the three that take least time alone are short.
  const std::vector<SplitModelName>& names() const { return names_; }

  /// Runs the arrivals of one window under a scheduler. `limits`: as in MixedClient.
  Result<SplitAnswers> Run(const SplitRun& run, std::span<const SplitArrival> arrivals,
                           std::span<const Nanoseconds> limits);

  /// The metrics of the models and their parts that RunSplitLive() lists.
  Status WriteParts(Report& report);

 private:
  LagoonModels() = default;
  Status Load(const std::string& zoo, const std::string& name);
  void FindShortOnes();
  Status CutLongOnes();
  Result<double> MedianMs(const std::string& spec, std::size_t model, int runs);

  // Declared before the device, so that they outlive it: its threads use the models' memory.
  std::vector<std::unique_ptr<BoundModel>> models_;
  ComputeDevice on_;
  std::vector<SplitModelName> names_;
  std::vector<double> alone_ms_;
};

}  // namespace lagoon::bench
