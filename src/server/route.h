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
    kUnserved,  // of an extension of Triton that Lagoon does not have
  };
  Kind kind = Kind::kUnknown;
  std::string model = {};
  std::string version = {};         // empty: not given
  std::string_view extension = {};  // of kUnserved: its name, of static storage
};

/// `target` as sent; its query is ignored, names are percent-decoded.
Route ParseRoute(std::string_view target);

}  // namespace lagoon
