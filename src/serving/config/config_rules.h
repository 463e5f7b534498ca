#pragma once

// What Lagoon does with each field of config.pbtxt: one verdict per field, and the function that
// applies the verdicts.

#include <google/protobuf/text_format.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {

enum class FieldVerdict : std::uint8_t {
  kServed,   // Lagoon acts on it
  kIgnored,  // has no effect, with a warning: results stay right without it
  kRefused,  // the model is not served: its answers would be wrong without it
  kInside,   // a message whose fields have verdicts of their own
};

struct FieldRule {
  std::string_view path;  // from ModelConfig down, without indexes: "input.reshape"
  FieldVerdict verdict;
  /// What a served field does; else completes "PATH is not implemented: ...".
  std::string_view text;
  int accepted = -1;  // an enum value that is accepted although the verdict is not kServed
};

/// Every rule. docs/reference/config.md is made from them. If fields inside a message have rules
/// too, they are applied after the message's own.
std::span<const FieldRule> FieldRules();

/// Null when `path` has no rule.
const FieldRule* FindFieldRule(std::string_view path);

/// Applies the rules to the fields that `config` sets. `locations`: from the parse that filled
/// `config`. `file`: for messages. Returns the warnings ("FILE:LINE: FIELD is not implemented:
/// ..."); kUnimplemented names the first refused field in the same way.
Result<std::vector<std::string>> ApplyFieldRules(
    const inference::ModelConfig& config,
    const google::protobuf::TextFormat::ParseInfoTree& locations, std::string_view file);

}  // namespace lagoon
