#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lagoon {

/// A parsed path of the Open Inference Protocol.
struct Route {
  enum class Kind : std::uint8_t {
    kUnknown,
    kLive,
    kReady,
    kServer,
    kStatistics,  // of all models
    kScheduler,
    kSchedulers,
    kShares,
    kFleet,
    kFleetPlacer,
    kRepositoryIndex,
    kRepositoryLoad,
    kRepositoryUnload,
    kModel,
    kModelReady,
    kModelConfig,
    kModelStatistics,
    kModelInfer,
    kModelResize,
    kUnserved,  // belongs to an extension of Triton that Lagoon does not have
  };
  Kind kind = Kind::kUnknown;
  std::string model = {};
  std::string version = {};         // empty: not given
  std::string_view extension = {};  // kUnserved: the extension's name, in static storage
};

/// Parses `target` as the client sent it. Ignores the query and percent-decodes names.
Route ParseRoute(std::string_view target);

}  // namespace lagoon
