#include "server/fleet/repository.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/folders.h"
#include "base/log.h"
#include "base/text.h"
#include "serving/config/model_config.pb.h"

namespace lagoon {

bool IsReady(const Inference& core, bool strict) {
  if (!core.Ready()) return false;
  return !strict || std::ranges::all_of(core.Models(), [](const ModelStatus& model) {
    return model.state == ModelState::kReady || model.reason == kNotLoaded;
  });
}

std::vector<RepositoryRow> RepositoryIndex(Inference& core, bool ready_only) {
  std::vector<ModelStatus> models = core.Models();
  if (const RepositoryControl* const repository = core.repository(); !ready_only && repository) {
    for (std::string& name : repository->Found()) {
      if (std::ranges::find(models, name, &ModelStatus::name) != models.end()) continue;
      models.push_back({.name = std::move(name), .reason = std::string(kNotLoaded)});
    }
  }
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
  const std::string name = Quoted(model);
  // The client's own config cannot be read: the model was not looked at.
  const bool unread = error.message.starts_with(fmt::format("model {}: the config: ", name));
  const bool refused = error.code == ErrorCode::kInvalidArgument && !unread;
  if (refused) spdlog::error("{}", error.message);
  const std::string what = !load               ? fmt::format("failed to unload {}", name)
                           : refused           ? fmt::format("load failed for model {}", name)
                           : unknown || unread ? fmt::format(
                                                     "failed to load {}, failed to poll from model "
                                                     "repository",
                                                     name)
                                               : fmt::format("failed to load {}", name);
  return Annotate(what, {error.code, refused ? WithoutFolders(error.message) : error.message});
}

Error UnknownParameter(std::string_view name) {
  return {ErrorCode::kUnimplemented,
          fmt::format("parameter {} is not supported; a load takes 'config' and 'file:PATH', an "
                      "unload 'unload_dependents'",
                      Quoted(name))};
}

namespace {

std::set<std::string> StepsOf(const Inference& core, const std::string& model) {
  std::set<std::string> steps;
  const Result<inference::ModelConfig> config = core.Config(model, "");
  if (!config) return steps;
  for (const auto& step : config->ensemble_scheduling().step()) steps.insert(step.model_name());
  return steps;
}

/// Unloads the models one after the other, from the last one of `names` on.
void UnloadSteps(RepositoryControl& repository, std::vector<std::string> names,
                 std::function<void(Status)> done) {
  if (names.empty()) return done({});
  const std::string name = names.back();
  names.pop_back();
  repository.UnloadModel(name, [&repository, names = std::move(names),
                                done = std::move(done)](const Status& unloaded) {
    if (!unloaded) spdlog::info("unload_dependents: {}", unloaded.error().message);
    UnloadSteps(repository, names, done);
  });
}

}  // namespace

void UnloadModel(Inference& core, const std::string& model, bool with_steps,
                 std::function<void(Status)> done) {
  RepositoryControl& repository = *core.repository();
  std::set<std::string> steps;
  if (with_steps) steps = StepsOf(core, model);
  if (steps.empty()) return repository.UnloadModel(model, std::move(done));
  for (const ModelStatus& other : core.Models()) {
    if (other.state != ModelState::kReady || other.name == model) continue;
    for (const std::string& step : StepsOf(core, other.name)) steps.erase(step);
  }
  repository.UnloadModel(model,
                         [&repository, names = std::vector<std::string>(steps.begin(), steps.end()),
                          done = std::move(done)](const Status& unloaded) {
                           if (!unloaded) return done(unloaded);
                           UnloadSteps(repository, names, done);
                         });
}

}  // namespace lagoon
