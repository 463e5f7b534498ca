#pragma once

// The tensors of a model as clients see them: config.pbtxt and the compiled model brought together.

#include <string>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"
#include "serving/model_config.pb.h"

namespace lagoon {

/// What a request may carry and an answer holds.
struct Signature {
  std::vector<TensorSpec>
      inputs;  // as the model takes them, batch dimension included; in plan order
  std::vector<TensorSpec>
      outputs;  // in plan order; those that the config does not declare are not served
  std::vector<std::size_t> output_index;  // of each output, in the plan
  /// max_batch_size. Above 0 the first dim of every tensor is the batch, and 1 in `inputs` and
  /// `outputs`.
  std::int64_t max_batch = 0;
};

/// The names, for messages: "'a', 'b'".
std::string QuotedNames(const std::vector<TensorSpec>& specs);

inference::DataType ConfigType(DataType type);

/// What a configuration says of a model that says nothing itself: a job program.
struct DeclaredTensors {
  std::vector<TensorSpec> inputs, outputs;
};
/// kInvalidArgument names a tensor without name, fixed dims or a type of numbers.
Result<DeclaredTensors> TensorsOf(const inference::ModelConfig& config);

/// Checks what `config` declares against the model's own `inputs` and `outputs` for a batch of 1,
/// and fills in what it leaves out: afterwards it is complete, and says what is served (no dim of
/// -1). Adds a warning for each tensor whose -1 became a fixed size. Errors name the tensor
/// and both values.
Result<Signature> CompleteConfig(const std::vector<TensorSpec>& inputs,
                                 const std::vector<TensorSpec>& outputs,
                                 inference::ModelConfig& config,
                                 std::vector<std::string>& warnings);

}  // namespace lagoon
