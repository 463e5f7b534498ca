#include "server/fleet/repository.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/folders.h"
#include "base/log.h"
#include "base/text.h"

namespace lagoon {

bool IsReady(const Inference& core, bool strict) {
  if (!core.Ready()) return false;
  return !strict || std::ranges::all_of(core.Models(), [](const ModelStatus& model) {
    return model.state == ModelState::kReady || model.reason == kNotLoaded;
  });
}

std::vector<RepositoryRow> RepositoryIndex(std::span<const ModelStatus> models, bool ready_only) {
  std::vector<RepositoryRow> rows;
  for (const ModelStatus& model : models) {
    const bool ready = model.state == ModelState::kReady;
    if (ready_only && !ready) continue;
    RepositoryRow row;
    row.name = model.name;
    row.version = model.version;
    row.state = ready ? "READY" : "UNAVAILABLE";
    if (!ready) row.reason = model.reason == kNotLoaded ? "unloaded" : WithoutFolders(model.reason);
    rows.push_back(std::move(row));
  }
  return rows;
}

Status ForClients(bool load, const std::string& model, const Status& changed) {
  if (changed) return {};
  const Error& error = changed.error();
  const bool unknown = error.code == ErrorCode::kNotFound;
  if (unknown && !load) return {};
  const bool refused = error.code == ErrorCode::kInvalidArgument;
  if (refused) spdlog::error("{}", error.message);
  const std::string name = Quoted(model);
  const std::string what = !load     ? fmt::format("failed to unload {}", name)
                           : refused ? fmt::format("load failed for model {}", name)
                           : unknown ? fmt::format(
                                           "failed to load {}, failed to poll from model "
                                           "repository",
                                           name)
                                     : fmt::format("failed to load {}", name);
  return Annotate(what, {error.code, refused ? WithoutFolders(error.message) : error.message});
}

Status CheckRepositoryParameter(std::string_view name) {
  // The models that an ensemble or a job program runs stay.
  if (name == "unload_dependents") return {};
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("parameter {} is not supported; a load takes 'config' and 'file:PATH'",
                          Quoted(name)));
}

}  // namespace lagoon
