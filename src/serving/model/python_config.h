#pragma once

// What a Python program hears of its model, and what it adds to the configuration.

#include <cstdint>
#include <string>

#include "base/json.h"
#include "base/status.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {

struct ProgramPlace {
  std::string name;
  std::string version;
  std::string folder;  // of the model
  std::string path;    // of model.py
};

/// The message that loads a program. `index`: of the program among those of the model.
nlohmann::json ProgramLoad(const ProgramPlace& place, const inference::ModelConfig& config,
                           std::uint32_t index);

/// Adds to `config` what auto_complete_config() has declared, as `ready`, the program's answer, has
/// it: tensors where the config has none, and fields that it leaves out. kInvalidArgument names
/// what is not as it must be.
Status TakeCompletion(const nlohmann::json& ready, inference::ModelConfig& config);

}  // namespace lagoon
