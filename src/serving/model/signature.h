#pragma once

// The tensors of a model as clients see them, from config.pbtxt and the compiled model.

#include <string>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {

/// The tensors that a request and an answer may hold. A dim of -1 takes any size.
struct Signature {
  /// As the model takes them, batch dimension included; in the model's order.
  std::vector<TensorSpec> inputs;
  /// In the model's order, without those that the config does not declare: they are not served.
  std::vector<TensorSpec> outputs;
  std::vector<std::size_t> output_index;  // for each of `outputs`, its number in the model
  /// max_batch_size. Above 0, the first dim of every tensor is the batch, from 1 to this number.
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

/// Checks what `config` declares against the model's own `inputs` and `outputs` (-1: open). Fills
/// in what `config` leaves out: afterwards `config` is complete and shows what is served. A size
/// that only `config` declares holds. Adds a warning for each tensor of `config` with a -1 where
/// the model has a fixed size. Errors name the tensor and both values.
Result<Signature> CompleteConfig(std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
                                 inference::ModelConfig& config,
                                 std::vector<std::string>& warnings);

}  // namespace lagoon
