#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "device/device.h"
#include "graph/graph.h"
#include "plan/instance.h"
#include "plan/strings.h"
#include "program/compile.h"
#include "program/parts.h"
#include "program/run.h"

namespace lagoon {

/// A model's plans for one request of `lagoon infer`, one for each part of the model, with the
/// memory of their outputs.
class BoundRequest {
 public:
  /// Compiles the model for the shapes of `inputs` (by input of the model), and for the contents of
  /// those on which shapes or branches depend. Runs each part before it compiles the next one. All
  /// arguments must outlive the result.
  static Result<BoundRequest> Bind(ModelCompiler& compiler, Device& device,
                                   const std::vector<Constant>& inputs);

  /// Runs all parts once and fills outputs(). kInternal: a shape differs from the one that a part
  /// is compiled for, though the inputs are the same.
  Status Run(const RunOptions& options = {});

  struct Output {
    TensorSpec spec;  // its dims are the actual ones
    std::span<const std::byte> bytes;
  };
  /// By output of the model. Valid until the next run.
  const std::vector<Output>& outputs() const { return outputs_; }
  std::size_t parts() const { return parts_.size(); }
  /// By part. Plans of later requests share the packed weights of those that live.
  std::vector<std::shared_ptr<const LoadedPlan>> plans() const;
  /// The ops that an engine runs.
  std::set<std::string> opaque() const;
  /// Time that compiling took, of all parts.
  Nanoseconds compile_time() const { return compile_time_; }

 private:
  struct Part {
    std::shared_ptr<const LoadedPlan> loaded;
    PartLinks links;
    std::unique_ptr<Instance> instance;
    std::vector<HostTensor> inputs;              // by input of the part
    std::vector<std::size_t> input_numbers;      // by input of the plan: index in `inputs`
    std::vector<const void*> plan_inputs;        // by input of the plan
    std::vector<std::vector<std::byte>> memory;  // by output of the plan
    PartRun run;
  };

  explicit BoundRequest(Device& device) : device_(&device) {}
  Status AddPart(ModelCompiler& compiler, const OnnxModel& model, std::vector<HostTensor> inputs);
  Status RunPart(Part& part, RunOptions options);
  static void SetInputs(Part& part, std::vector<HostTensor> inputs);
  Status SetOutputs(const Part& part);

  Device* device_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<Output> outputs_;
  std::vector<std::vector<StringElement>> strings_;  // of inputs
  Nanoseconds compile_time_{0};
};

}  // namespace lagoon
