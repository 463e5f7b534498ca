#pragma once

// Reads a model's config.pbtxt: protobuf text, checked field by field.

#include <string>
#include <vector>

#include "base/status.h"
#include "serving/config/model_config.pb.h"
#include "serving/config/model_settings.h"

namespace lagoon {

inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

struct ConfigFile {
  inference::ModelConfig config;  // as written, with its name
  ModelSettings settings;
  std::vector<std::string> warnings;  // for the operator; each names the file
};

/// Parses and checks `text`. `model`: the name of the model's folder, which the field `name` must
/// equal if it is set. `path`: for messages. Errors name the file, the line, and the field if the
/// error is about one: kInvalidArgument for wrong text or values and for unknown fields,
/// kUnimplemented for fields that would change results if they were ignored.
Result<ConfigFile> ParseConfig(const std::string& text, const std::string& model,
                               const std::string& path);

/// The same from JSON, with the names of the fields as in config.pbtxt or as protobuf's JSON has
/// them. Messages call it "the config".
Result<ConfigFile> ParseJsonConfig(const std::string& json, const std::string& model);

/// The same from a file of at most kMaxConfigBytes. If there is no such file: the defaults.
Result<ConfigFile> ReadConfig(const std::string& model, const std::string& path);

}  // namespace lagoon
