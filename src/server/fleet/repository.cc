#include "server/fleet/repository.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"

namespace lagoon {

std::vector<RepositoryRow> RepositoryIndex(std::span<const ModelStatus> models, bool ready_only) {
  std::vector<RepositoryRow> rows;
  for (const ModelStatus& model : models) {
    const bool ready = model.state == ModelState::kReady;
    if (ready_only && !ready) continue;
    RepositoryRow row;
    row.name = model.name;
    row.version = model.version;
    row.state = ready ? "READY" : "UNAVAILABLE";
    if (!ready) {
      row.reason =
          model.reason == kNotLoaded ? "unloaded" : "not served; the server's log says why";
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Error ForClients(const std::string& model, const Error& error) {
  if (error.code != ErrorCode::kInvalidArgument) return error;
  spdlog::error("{}", error.message);
  return {error.code,
          fmt::format("model {} cannot be changed; the server's log says why", Quoted(model))};
}

Status CheckRepositoryParameter(std::string_view name) {
  // No model of Lagoon depends on another one, but for job programs, which stay.
  if (name == "unload_dependents") return {};
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("parameter {} is not supported: a model is loaded as the repository has "
                          "it",
                          Quoted(name)));
}

}  // namespace lagoon
