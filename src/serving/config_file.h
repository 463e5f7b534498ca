#pragma once

// Reads a model's config.pbtxt: protobuf text, checked field by field.

#include <string>
#include <vector>

#include "base/status.h"
#include "serving/model_config.pb.h"
#include "serving/model_settings.h"

namespace lagoon {

inline constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 20;

struct ConfigFile {
  inference::ModelConfig config;  // as written, with its name
  ModelSettings settings;
  std::vector<std::string> warnings;  // what the operator should know, each naming the file
};

/// Parses and checks `text`. `model`: its folder's name, which `name` must equal if it is set;
/// `path`: for messages. Errors name file and line, and the field where there is one:
/// kInvalidArgument for wrong text or values and for unknown fields, kUnimplemented for fields that
/// would change results if they were ignored.
Result<ConfigFile> ParseConfig(const std::string& text, const std::string& model,
                               const std::string& path);

/// The same from a file of at most kMaxConfigBytes. No such file: the defaults.
Result<ConfigFile> ReadConfig(const std::string& model, const std::string& path);

}  // namespace lagoon
