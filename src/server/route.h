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
    kFleetMembers,
    kFleetLeave,
    kRepositoryIndex,
    kRepositoryLoad,
    kRepositoryUnload,
    kModel,
    kModelReady,
    kModelConfig,
    kModelStatistics,
    kModelInfer,
    kModelGenerate,
    kModelGenerateStream,
    kModelResize,
    kLogging,
    kTraceSettings,  // of all models
    kModelTraceSettings,
    kRegionStatus,  // of system shared memory
    kRegionRegister,
    kRegionUnregister,
    kCudaRegionStatus,
    kCudaRegionRegister,
    kCudaRegionUnregister,
    kMetrics,
  };
  Kind kind = Kind::kUnknown;
  std::string model = {};    // or the region of shared memory
  std::string version = {};  // empty: not given
};

/// A path that the server answers. The table kEndpoints decides which paths, methods and ports
/// there are; docs/reference/http.md is made from the table.
struct Endpoint {
  enum class Ports : std::uint8_t { kClients, kOperators, kBoth };
  Route::Kind kind;
  /// "{model}" and "{region}" stand for a name. In paths of models "/versions/V" may follow the
  /// name.
  std::string_view path;
  std::string_view methods;  // "GET", "POST" or "GET, POST"
  Ports ports;
  /// If not empty, POST changes the server, and belongs to the operators' port. Completes "... on
  /// the metrics port".
  std::string_view change;
  std::string_view answer;  // what it does, for the reference; empty: another row says it

  bool ServedOn(Ports port) const { return ports == port || ports == Ports::kBoth; }
};

/// All endpoints, in the order of the reference. The first whose path matches a target counts.
inline constexpr Endpoint kEndpoints[] = {
    {Route::Kind::kModelInfer, "/v2/models/{model}/infer", "POST", Endpoint::Ports::kClients, "",
     "an inference"},
    {Route::Kind::kModelGenerate, "/v2/models/{model}/generate", "POST", Endpoint::Ports::kClients,
     "", "an inference whose inputs and outputs are members of plain JSON; one answer"},
    {Route::Kind::kModelGenerateStream, "/v2/models/{model}/generate_stream", "POST",
     Endpoint::Ports::kClients, "", "the same for any number of answers: events of an SSE stream"},
    {Route::Kind::kStatistics, "/v2/models/stats", "GET", Endpoint::Ports::kClients, "",
     "statistics of all models"},
    {Route::Kind::kModel, "/v2/models/{model}", "GET", Endpoint::Ports::kClients, "",
     "inputs and outputs: name, datatype, shape"},
    {Route::Kind::kModelReady, "/v2/models/{model}/ready", "GET", Endpoint::Ports::kClients, "",
     "200, 404 (unknown) or 503 (not loaded: the server's log says why)"},
    {Route::Kind::kModelConfig, "/v2/models/{model}/config", "GET", Endpoint::Ports::kClients, "",
     "`config.pbtxt` as JSON, as served"},
    {Route::Kind::kModelStatistics, "/v2/models/{model}/stats", "GET", Endpoint::Ports::kClients,
     "", "statistics of the model"},
    {Route::Kind::kServer, "/v2", "GET", Endpoint::Ports::kClients, "",
     "name, version and extensions of the server"},
    {Route::Kind::kLive, "/v2/health/live", "GET", Endpoint::Ports::kClients, "",
     "200 as long as the process serves"},
    {Route::Kind::kReady, "/v2/health/ready", "GET", Endpoint::Ports::kClients, "",
     "200, or 503: models are being loaded, or the server drains; with `--strict-readiness` also "
     "while a model is refused"},
    {Route::Kind::kRepositoryIndex, "/v2/repository/index", "POST", Endpoint::Ports::kClients, "",
     "all models of the repository, with the reason of those that are not served; with "
     "`{\"ready\": true}` only those that are"},
    {Route::Kind::kRepositoryLoad, "/v2/repository/models/{model}/load", "POST",
     Endpoint::Ports::kBoth, "models are loaded",
     "with `--model-control explicit`: loads the model, or what the repository has now; else 501"},
    {Route::Kind::kRepositoryUnload, "/v2/repository/models/{model}/unload", "POST",
     Endpoint::Ports::kBoth, "models are unloaded",
     "with `--model-control explicit`: unloads the model; else 501"},
    {Route::Kind::kLogging, "/v2/logging", "GET, POST", Endpoint::Ports::kBoth, "the log is set",
     "Triton's log settings; POST sets the level"},
    {Route::Kind::kTraceSettings, "/v2/trace/setting", "GET, POST", Endpoint::Ports::kClients, "",
     "Triton's trace settings, also of a model; POST takes what GET tells, else 501"},
    {Route::Kind::kModelTraceSettings, "/v2/models/{model}/trace/setting", "GET, POST",
     Endpoint::Ports::kClients, "", "the same"},
    {Route::Kind::kRegionStatus, "/v2/systemsharedmemory/status", "GET", Endpoint::Ports::kClients,
     "", "the regions of shared memory that are registered"},
    {Route::Kind::kRegionStatus, "/v2/systemsharedmemory/region/{region}/status", "GET",
     Endpoint::Ports::kClients, "", "one of them"},
    {Route::Kind::kRegionRegister, "/v2/systemsharedmemory/region/{region}/register", "POST",
     Endpoint::Ports::kClients, "",
     "registers bytes of a shared memory object, `{\"key\": NAME, \"offset\": N, "
     "\"byte_size\": N}`; with `--shared-memory off` 501"},
    {Route::Kind::kRegionUnregister, "/v2/systemsharedmemory/region/{region}/unregister", "POST",
     Endpoint::Ports::kClients, "", "forgets the region"},
    {Route::Kind::kRegionUnregister, "/v2/systemsharedmemory/unregister", "POST",
     Endpoint::Ports::kClients, "", "forgets all"},
    {Route::Kind::kCudaRegionStatus, "/v2/cudasharedmemory/status", "GET",
     Endpoint::Ports::kClients, "", "there are none"},
    {Route::Kind::kCudaRegionStatus, "/v2/cudasharedmemory/region/{region}/status", "GET",
     Endpoint::Ports::kClients, "", "404"},
    {Route::Kind::kCudaRegionRegister, "/v2/cudasharedmemory/region/{region}/register", "POST",
     Endpoint::Ports::kClients, "", "400"},
    {Route::Kind::kCudaRegionUnregister, "/v2/cudasharedmemory/region/{region}/unregister", "POST",
     Endpoint::Ports::kClients, "", "200"},
    {Route::Kind::kCudaRegionUnregister, "/v2/cudasharedmemory/unregister", "POST",
     Endpoint::Ports::kClients, "", "200"},
    {Route::Kind::kSchedulers, "/v2/schedulers", "GET", Endpoint::Ports::kBoth, "",
     "every scheduler with its parameters: bounds, default, meaning"},
    {Route::Kind::kScheduler, "/v2/scheduler", "GET, POST", Endpoint::Ports::kBoth,
     "the scheduler is switched",
     "the scheduler in use, with the values of its parameters; POST `{\"scheduler\": NAME, "
     "\"parameters\": {...}}` switches"},
    {Route::Kind::kShares, "/v2/shares", "GET, POST", Endpoint::Ports::kBoth, "shares are changed",
     "loads and shares of all models; POST sets how shares are tuned"},
    {Route::Kind::kModelResize, "/v2/models/{model}/resize", "POST", Endpoint::Ports::kBoth,
     "shares are changed", "sets the share of the model"},
    {Route::Kind::kFleet, "/v2/fleet", "GET", Endpoint::Ports::kBoth, "",
     "with `--fleet`: devices, replicas and the last decision; else 501"},
    {Route::Kind::kFleetPlacer, "/v2/fleet/placer", "POST", Endpoint::Ports::kBoth,
     "the placer is set", "with `--fleet`: sets the placer, `{\"placer\": NAME}`; else 501"},
    {Route::Kind::kFleetMembers, "/v2/fleet/members", "POST", Endpoint::Ports::kBoth,
     "a server joins",
     "with `--fleet`: a server joins, `{\"name\": NAME, \"address\": \"HOST:PORT\", "
     "\"memory_bytes\": N}`; else 501"},
    {Route::Kind::kFleetLeave, "/v2/fleet/leave", "POST", Endpoint::Ports::kBoth, "a server leaves",
     "with `--fleet`: a server leaves, `{\"name\": NAME}`; else 501"},
    {Route::Kind::kMetrics, "/metrics", "GET", Endpoint::Ports::kOperators, "",
     "metrics in the text format of Prometheus"},
};

/// Null for kUnknown.
const Endpoint* FindEndpoint(Route::Kind kind);

/// Parses `target` as the client sent it. Ignores the query and percent-decodes names.
Route ParseRoute(std::string_view target);

}  // namespace lagoon
