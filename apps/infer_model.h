#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "graph/graph.h"
#include "plan/instance.h"
#include "program/compile.h"
#include "program/run.h"

namespace lagoon {

/// A model's plan for one request of `lagoon infer`, with the memory of its outputs.
class BoundRequest {
 public:
  /// Compiles the model for the shapes of `inputs` (by input of the model), and for the contents of
  /// those on which shapes or branches depend. All arguments must outlive the result.
  static Result<BoundRequest> Bind(ModelCompiler& compiler, Device& device,
                                   const std::vector<Constant>& inputs);

  /// Runs the plan once and fills outputs().
  Status Run(const RunOptions& options = {});

  const Plan& plan() const { return loaded_->plan; }
  /// By output of the plan.
  const std::vector<std::vector<std::byte>>& outputs() const { return outputs_; }

 private:
  explicit BoundRequest(Device& device) : device_(&device) {}

  Device* device_;
  std::shared_ptr<const LoadedPlan> loaded_;
  std::unique_ptr<Instance> instance_;
  std::vector<const void*> inputs_;  // by input of the plan
  std::vector<std::vector<std::byte>> outputs_;
};

}  // namespace lagoon
