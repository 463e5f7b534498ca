#pragma once

// The tensors of a model as clients see them, from config.pbtxt and the compiled model.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/tensor.h"
#include "serving/config/model_config.pb.h"
#include "serving/core/request.h"

namespace lagoon {

/// A tensor that clients see in another shape than the model (`reshape` of config.pbtxt): the same
/// elements in the same order. Both shapes have the batch, and as many open dims (-1), which have
/// the same sizes in the same order.
struct Reshape {
  Dims client, model;
};

/// The sizes of the shape `to` where those of `from` are `dims`; the two are of one Reshape.
/// Nothing: `dims` does not fit `from`.
std::optional<Dims> Reshaped(const Dims& dims, const Dims& from, const Dims& to);

/// The tensors that a request and an answer may hold. A dim of -1 takes any size.
struct Signature {
  /// As clients send them, batch dimension included; in the model's order.
  std::vector<TensorSpec> inputs;
  /// In the model's order, without those that the config does not declare: they are not served.
  std::vector<TensorSpec> outputs;
  std::vector<std::size_t> output_index;  // for each of `outputs`, its number in the model
  /// For each of `inputs` and of `outputs`; nothing: the model sees the same shape.
  std::vector<std::optional<Reshape>> input_reshape, output_reshape;
  /// For each of `outputs`: what its label file says (labels.h). Null, or beyond its end: it has
  /// none.
  std::vector<std::shared_ptr<const Labels>> labels;
  /// For each of `inputs` and of `outputs`: it is of the sequence (sequence_batching), and clients
  /// do not see it. Empty: none is.
  std::vector<bool> hidden_inputs, hidden_outputs;
  /// max_batch_size. Above 0, the first dim of every tensor is the batch, from 1 to this number.
  std::int64_t max_batch = 0;
};

/// The tensors that clients see. `hidden`: as in Signature.
std::vector<TensorSpec> Visible(const std::vector<TensorSpec>& specs,
                                const std::vector<bool>& hidden);

/// The names of the tensors, for messages: "'a', 'b'".
std::string QuotedNames(const std::vector<TensorSpec>& specs);

inference::DataType ConfigType(DataType type);

/// The tensors of a job program or an ensemble, which only its configuration declares.
struct DeclaredTensors {
  std::vector<TensorSpec> inputs, outputs;
};
/// kInvalidArgument names a tensor that has no name, no fixed dims or no numeric type.
Result<DeclaredTensors> TensorsOf(const inference::ModelConfig& config);

/// The same of an ensemble, with the batch dimension, and with dims that may be open (-1).
/// kInvalidArgument or kUnimplemented names a tensor without a name, a type or dims that can be,
/// and one with a reshape.
Result<DeclaredTensors> TensorsOfEnsemble(const inference::ModelConfig& config);

/// The same of a model of Python, whose tensors may have a reshape. kInvalidArgument also: there is
/// no output.
Result<DeclaredTensors> TensorsOfPython(const inference::ModelConfig& config);

/// Checks what `config` declares against the model's own `inputs` and `outputs` (-1: open). Fills
/// in what `config` leaves out: afterwards `config` is complete and shows what is served. A size
/// that only `config` declares holds. Dims [1] of a tensor that is a number in the model are as a
/// `reshape` to no dims. Adds a warning for each tensor of `config` with a -1 where
/// the model has a fixed size. Errors name the tensor and both values.
Result<Signature> CompleteConfig(std::vector<TensorSpec> inputs, std::vector<TensorSpec> outputs,
                                 inference::ModelConfig& config,
                                 std::vector<std::string>& warnings);

}  // namespace lagoon
