#pragma once

// Graph -> Plan: layout, lowering, memory plan, access sets, and the standalone profile.

#include <memory>
#include <string>

#include "base/status.h"
#include "device/device.h"
#include "graph/graph.h"
#include "plan/instance.h"
#include "plan/plan.h"

namespace lagoon {

struct CompileOptions {
  std::string model;       // the name that messages use
  ImportOptions import;
};

/// Compiles an ONNX file for `device`, packs the weights into device memory. Blocking: seconds for a large model.
/// Errors name model, node, op and opset.
Result<std::shared_ptr<const LoadedPlan>> CompileModel(const std::string& path, Device& device,
                                                       const CompileOptions& options);

/// Runs the plan alone `runs` times and returns it with measured costs and standalone latency (medians).
/// The device must be otherwise idle.
Status ProfilePlan(LoadedPlan& loaded, Device& device, int runs);

/// Runs one inference synchronously on an idle device without a dispatcher: for profiling, tests and `lagoon infer`.
/// `inputs` and `outputs`: one pointer per plan tensor, of the tensor's bytes.
Status RunOnce(Instance& instance, Device& device, std::span<const void* const> inputs,
               std::span<void* const> outputs);

}  // namespace lagoon
