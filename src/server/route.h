#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lagoon {

/// What a path of the Open Inference Protocol names.
struct Route {
  enum class Kind : std::uint8_t {
    kUnknown,
    kLive,
    kReady,
    kServer,
    kStatistics,  // of all models
    kScheduler,
    kModel,
    kModelReady,
    kModelConfig,
    kModelStatistics,
    kModelInfer,
  };
  Kind kind = Kind::kUnknown;
  std::string model;
  std::string version;  // empty: not given
};

/// `target` as sent; its query is ignored, names are percent-decoded.
Route ParseRoute(std::string_view target);

}  // namespace lagoon
