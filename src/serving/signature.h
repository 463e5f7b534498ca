#pragma once

// The tensors of a model as clients see them, from config.pbtxt and the compiled model.

#include <string>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {

/// The tensors that a request and an answer may hold.
struct Signature {
  /// As the model takes them, batch dimension included; in plan order.
  std::vector<TensorSpec> inputs;
  /// In plan order, without those that the config does not declare: they are not served.
  std::vector<TensorSpec> outputs;
  std::vector<std::size_t> output_index;  // for each of `outputs`, its number in the plan
  /// max_batch_size. Above 0, the first dim of every tensor is the batch; that dim is 1 in `inputs`
  /// and `outputs`.
  std::int64_t max_batch = 0;
};

/// The names of the tensors, for messages: "'a', 'b'".
std::string QuotedNames(const std::vector<TensorSpec>& specs);

inference::DataType ConfigType(DataType type);

/// The tensors of a job program, which only its configuration declares.
struct DeclaredTensors {
  std::vector<TensorSpec> inputs, outputs;
};
/// kInvalidArgument names a tensor that has no name, no fixed dims or no numeric type.
Result<DeclaredTensors> TensorsOf(const inference::ModelConfig& config);

/// Checks what `config` declares against the model's own `inputs` and `outputs` for a batch of 1.
/// Fills in what `config` leaves out: afterwards `config` is complete and shows what is served (no
/// dim is -1). Adds a warning for each tensor with a -1 that became a fixed size. Errors name the
/// tensor and both values.
Result<Signature> CompleteConfig(const std::vector<TensorSpec>& inputs,
                                 const std::vector<TensorSpec>& outputs,
                                 inference::ModelConfig& config,
                                 std::vector<std::string>& warnings);

}  // namespace lagoon
