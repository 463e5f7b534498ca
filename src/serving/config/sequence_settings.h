#pragma once

// sequence_batching: requests that belong together, in their order.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "plan/tensor.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {

/// What a model learns of the sequence by an input of its own.
struct SequenceControl {
  enum class Kind : std::uint8_t { kStart, kReady, kEnd, kId };

  std::string input;
  Kind kind = Kind::kStart;
  DataType type = DataType::kInt32;
  /// An element that says no and one that says yes; not of kId.
  std::array<std::byte, 8> no{}, yes{};
};

/// A tensor that the model keeps from one request of a sequence to the next: an output that becomes
/// an input.
struct SequenceState {
  std::string input, output;
  /// The dims of an initial_state, without the batch. Nothing: zeros of the input's shape.
  std::optional<Dims> initial_dims;
  std::string initial_file;  // in the model's folder initial_state; empty: zeros
};

struct SequenceSettings {
  std::vector<SequenceControl> controls;
  std::vector<SequenceState> states;
  /// A sequence that has had no request for so long has ended.
  Nanoseconds idle = std::chrono::seconds(1);
  /// oldest.max_candidate_sequences: the sequences that an instance has at a time. 0: one for each
  /// row of its batches, as `direct` has it.
  std::int64_t candidates = 0;
  /// direct or oldest: how long a request waits for those of other sequences.
  Nanoseconds max_delay{0};
  std::vector<std::int64_t> preferred;  // oldest.preferred_batch_size
};

/// Nothing: `config` has no sequence_batching. kInvalidArgument and kUnimplemented name the field
/// and the value.
Result<std::optional<SequenceSettings>> ReadSequences(const inference::ModelConfig& config);

/// The inputs that the sequence gives and the outputs that it keeps, which clients do not see, by
/// name. An output that `config` declares is one that clients see.
struct SequenceTensors {
  std::vector<std::string> inputs, outputs;
};
SequenceTensors HiddenTensors(const inference::ModelConfig& config);

}  // namespace lagoon
