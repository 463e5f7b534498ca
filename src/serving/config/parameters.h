#pragma once

// What a model's `parameters` in config.pbtxt may hold: one row per parameter.

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "serving/config/model_settings.h"

namespace lagoon {

struct ConfigParameter {
  std::string_view key;     // "lagoon.places"; a prefix if `name` is not empty: "lagoon.dimension."
  std::string_view name;    // of what follows the prefix: "NAME"
  std::string takes;        // completes "it takes ..."
  std::string_view usual;   // what holds without the parameter
  std::string_view effect;  // for the reference
  /// Takes the value over. False: the parameter does not take this value. `rest`: what follows the
  /// prefix.
  bool (*read)(std::string_view rest, std::string_view value, ModelSettings& settings);

  /// As a reader of docs and messages sees it: "lagoon.dimension.NAME".
  std::string Word() const { return std::string(key) + std::string(name); }
};

/// All parameters that Lagoon reads, in the order of docs/reference/config.md, which is made from
/// them.
const std::vector<ConfigParameter>& ConfigParameters();

/// Whether a parameter of this name is meant for Lagoon: if it is unknown, that is an error.
bool IsForLagoon(std::string_view key);

/// Takes one parameter over. kInvalidArgument: it is unknown, or its value is not what it takes.
Status ReadParameter(std::string_view key, std::string_view value, ModelSettings& settings);

}  // namespace lagoon
