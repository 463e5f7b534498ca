#pragma once

// The tensors between two parts of a model (PartLinks), in host memory.

#include <cstddef>
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

/// Output `index` of a run of a part's plan, with its actual dims. `outputs`: what the run has
/// written, by output of the plan. kInternal: the actual dims exceed the capacity.
Result<HostTensor> PartOutput(const PartLinks& links, const Plan& plan,
                              std::span<const std::span<const std::byte>> outputs,
                              std::size_t index);

/// The inputs of the next part, which must exist. `inputs`: those of this part's OnnxModel.
Result<std::vector<HostTensor>> InputsOfNextPart(
    const PartLinks& links, const Plan& plan, std::span<const HostTensor> inputs,
    std::span<const std::span<const std::byte>> outputs);

/// A copy, for inputs whose contents decide a plan (GraphInputs::values).
Constant AsConstant(DataType type, const HostTensor& tensor);

}  // namespace lagoon
