#pragma once

// The tensors between two parts of a model (PartLinks), in host memory.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "graph/onnx_model.h"
#include "plan/plan.h"

namespace lagoon {

/// A dense row-major tensor. Borrows its bytes.
struct HostTensor {
  Dims dims;
  std::span<const std::byte> bytes;
};

/// What a run of a part's plan has computed, by output of the plan.
struct PartRun {
  std::vector<std::span<const std::byte>> outputs;           // copied from the arena
  std::vector<std::shared_ptr<const MadeTensor>> made = {};  // Instance::TakeMade()
};

/// Output `index` of a run of a part's plan, with its actual dims. kInternal: the actual dims
/// exceed the capacity, or an engine has made another type than it said.
Result<HostTensor> PartOutput(const PartLinks& links, const Plan& plan, const PartRun& run,
                              std::size_t index);

/// The inputs of the next part, which must exist. `inputs`: those of this part's OnnxModel.
Result<std::vector<HostTensor>> InputsOfNextPart(const PartLinks& links, const Plan& plan,
                                                 std::span<const HostTensor> inputs,
                                                 const PartRun& run);

/// Whether a run of the plan has shown that its assumptions about shapes are wrong
/// (OpaqueOp::outdated). A new plan for the same inputs makes them no more.
bool Outdated(const Plan& plan);
/// Whether that can become true.
bool Assumes(const Plan& plan);

/// A copy, for inputs whose contents decide a plan (GraphInputs::values).
Constant AsConstant(DataType type, const HostTensor& tensor);

}  // namespace lagoon
