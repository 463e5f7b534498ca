#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "device/device.h"
#include "plan/instance.h"
#include "plan/precision.h"
#include "program/link/host_tensors.h"
#include "program/open_device.h"
#include "program/run.h"

namespace lagoon::bench {

/// Version 1 of a model in a repository.
std::string ModelFile(const std::string& repository, const std::string& name);

/// kNotFound if a model is not in the zoo: names all that are missing, and the command that makes
/// them. Benchmarks check this first: some take minutes until they need their last model.
Status CheckZoo(const std::string& zoo, const std::vector<std::string>& models);

struct BoundModelOptions {
  bool tune = false;       // use the fastest version of every op (ProfileVersions); takes seconds
  std::int64_t batch = 1;  // size of dimensions that the file calls "batch"
  Precision precision = Precision::kFp32;
};

/// A compiled model with one instance, values for its inputs and room for its outputs. Only one run
/// at a time.
class BoundModel {
 public:
  static Result<std::unique_ptr<BoundModel>> Load(const std::string& file, const std::string& name,
                                                  const ComputeDevice& on,
                                                  const BoundModelOptions& options = {});

  /// Another instance of the same plan, with tensors of its own.
  Result<std::unique_ptr<BoundModel>> Twin(Device& device) const;

  Instance& instance() { return *instance_; }
  std::span<const void* const> inputs() const { return host_->inputs(); }
  std::span<void* const> outputs() const { return host_->outputs(); }

  /// One inference without a dispatcher; the device must be idle.
  Status Run(Device& device, const RunOptions& options = {});
  /// Measures the plan's costs; the device must be idle.
  Status Profile(Device& device, int runs);
  /// Sets the plan's parts (program/split/choose.h) from its costs; the device must be idle.
  Status SetParts(std::uint32_t parts);

 private:
  BoundModel() = default;

  std::shared_ptr<LoadedPlan> loaded_;
  std::unique_ptr<Instance> instance_;
  std::optional<HostTensors> host_;
};

}  // namespace lagoon::bench
