#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "plan/plan.h"

namespace lagoon {

/// Host memory for the inputs and outputs of a plan, for runs without inputs of their own. Floats
/// are from 0 to 1; integers are 1 and 0 in turns, which a token, an index and a mask may be;
/// strings are "0".
class HostTensors {
 public:
  explicit HostTensors(const Plan& plan);
  std::span<const void* const> inputs() const { return inputs_; }
  std::span<void* const> outputs() const { return outputs_; }

 private:
  void* Add(const PlanTensor& tensor);

  std::vector<std::vector<std::byte>> data_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace lagoon
