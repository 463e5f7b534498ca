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

Error ForClients(const std::string& model, const Error& error) {
  if (error.code != ErrorCode::kInvalidArgument) return error;
  spdlog::error("{}", error.message);
  std::string reason = WithoutFolders(error.message);
  const std::string context = fmt::format("model {}", Quoted(model));
  if (!reason.starts_with(context)) reason.insert(0, context + ": ");
  return {error.code, std::move(reason)};
}

Status CheckRepositoryParameter(std::string_view name) {
  // No model of Lagoon depends on another one, but for job programs, which stay.
  if (name == "unload_dependents") return {};
  return Fail(ErrorCode::kUnimplemented,
              fmt::format("parameter {} is not supported; a load takes 'config' and 'file:PATH'",
                          Quoted(name)));
}

}  // namespace lagoon
