#pragma once

#include <cstdint>
#include <span>
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
    kFleetRoutes,
    kRepositoryIndex,
    kRepositoryLoad,
    kRepositoryUnload,
    kModel,
    kModelReady,
    kModelConfig,
    kModelStatistics,
    kModelInfer,
    kModelResize,
    kMetrics,
    kUnserved,  // belongs to an extension of Triton that Lagoon does not have
  };
  Kind kind = Kind::kUnknown;
  std::string model = {};
  std::string version = {};         // empty: not given
  std::string_view extension = {};  // kUnserved: the extension's name, in static storage
};

/// A path that the server answers. The table of endpoints decides which paths, methods and ports
/// there are; docs/reference/http.md is made from the table.
struct Endpoint {
  enum class Ports : std::uint8_t { kClients, kOperators, kBoth };
  Route::Kind kind;
  /// "{model}" stands for a name. In paths of models "/versions/V" may follow the name.
  std::string_view path;
  std::string_view methods;  // "GET", "POST" or "GET, POST"
  Ports ports;
  /// If not empty, POST changes the server, and belongs to the operators' port. Completes "... on
  /// the metrics port".
  std::string_view change;
  std::string_view answer;  // what it does, for the reference

  bool ServedOn(Ports port) const { return ports == port || ports == Ports::kBoth; }
};

/// All endpoints, in the order of the reference.
std::span<const Endpoint> Endpoints();

/// Null for kUnknown and kUnserved.
const Endpoint* FindEndpoint(Route::Kind kind);

/// Parses `target` as the client sent it. Ignores the query and percent-decodes names.
Route ParseRoute(std::string_view target);

}  // namespace lagoon
