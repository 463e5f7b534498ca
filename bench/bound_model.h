#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "plan/instance.h"
#include "program/run.h"

namespace lagoon::bench {

/// A compiled model with one instance, seeded input values and room for its outputs. One run at a
/// time.
class BoundModel {
 public:
  /// `tune`: with the fastest version of every op (ProfileVersions); seconds.
  static Result<std::unique_ptr<BoundModel>> Load(const std::string& file, const std::string& name,
                                                  Device& device, bool tune = false);

  Instance& instance() { return *instance_; }
  std::span<const void* const> inputs() const { return inputs_; }
  std::span<void* const> outputs() const { return outputs_; }

  /// One inference without a dispatcher; the device must be idle.
  Status Run(Device& device, const RunOptions& options = {});
  /// Measures the plan's costs; the device must be idle.
  Status Profile(Device& device, int runs);

 private:
  BoundModel() = default;

  std::shared_ptr<LoadedPlan> loaded_;
  std::unique_ptr<Instance> instance_;
  std::vector<std::vector<float>> values_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace lagoon::bench
