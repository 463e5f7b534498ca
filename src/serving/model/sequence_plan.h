#pragma once

// What a model and the sequences of its requests (sequence_batching) have to do with each other.

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"
#include "serving/config/sequence_settings.h"
#include "serving/model/request_check.h"
#include "serving/model/signature.h"

namespace lagoon {

inline constexpr std::size_t kMostIdBytes = 128;  // of a sequence, as in Triton

struct SequencePlan {
  /// An input with one element, for each row one.
  struct Control {
    std::size_t input = 0;  // in Signature::inputs
    Dims dims;              // of a request, which has one row
    SequenceControl control;
  };
  struct State {
    std::size_t input = 0, output = 0;  // in Signature::inputs and Signature::outputs
    Dims dims;                          // at the start of a sequence
    std::shared_ptr<const std::vector<std::byte>> initial;
  };

  std::vector<Control> controls;
  std::vector<State> states;
};

/// Adds the plan's tensors to those of a request; the values of inputs come when it runs.
/// kInvalidArgument: the request has more than one row, or the id has more than kMostIdBytes.
Status BindSequence(const SequencePlan& plan, const Signature& signature, const SequencePart& part,
                    RequestBinding& binding);

/// `folder`: the model's, whose folder initial_state has the files of initial states.
/// kInvalidArgument names a tensor that the model does not have, or not so.
Result<SequencePlan> PlanSequences(const SequenceSettings& settings, const std::string& folder,
                                   const Signature& signature);

}  // namespace lagoon
