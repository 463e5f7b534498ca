#include "serving/model_table.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "base/log.h"
#include "base/text.h"

namespace lagoon {
namespace {

void LogLoaded(const ServedModel& model, const ModelStatus& status) {
  for (const std::string& warning : model.warnings()) {
    spdlog::warn("model '{}' version {}: {}", model.name(), model.version(), warning);
  }
  if (!status.warning.empty()) {
    spdlog::warn("model '{}' version {}: {}", model.name(), model.version(), status.warning);
  }
  spdlog::info("model '{}' version {}: {}, {:.3f} ms alone, {} instance(s), loaded in {:.0f} ms",
               model.name(), model.version(),
               model.settings().job_class == JobClass::kRealTime ? "real-time" : "best-effort",
               ToMilliseconds(status.standalone), model.settings().instances, status.load_ms);
}

/// For remote clients, so without the reason, which names paths of the server. The log has it.
tl::unexpected<Error> NotServed(const std::string& what) {
  return Fail(ErrorCode::kUnavailable,
              what + " is in the repository but is not served; the server's log says why");
}

void LogFailed(const ModelStatus& status) {
  spdlog::error("model '{}'{}{}: not served: {}", status.name,
                status.version.empty() ? "" : " version ", status.version, status.reason);
}

}  // namespace

Status ModelTable::Load(const std::string& repository, Device& device, const LoadOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<RepositoryModel> models, ScanRepository(repository));
  for (const RepositoryModel& model : models) {
    models_[model.name] = LoadModel(model, device, options);
  }
  if (models.empty()) spdlog::warn("repository '{}' holds no model", repository);
  return {};
}

ModelTable::Entry ModelTable::LoadModel(const RepositoryModel& model, Device& device,
                                        const LoadOptions& options) {
  const std::filesystem::path directory = model.directory;
  Entry entry;
  entry.problem = model.problem;
  Result<ConfigFile> file = Fail(ErrorCode::kInvalidArgument, model.problem);
  if (entry.problem.empty()) {
    file = ReadConfig(model.name, directory / "config.pbtxt");
    if (!file) entry.problem = file.error().message;
  }
  if (!entry.problem.empty()) {
    LogFailed({model.name, "", ModelState::kUnavailable, entry.problem, "", 0, Nanoseconds(0)});
    return entry;
  }
  for (const std::string& warning : file->warnings) {
    spdlog::warn("model '{}': {}", model.name, warning);
  }
  const VersionChoice choice = ChooseVersions(file->config.version_policy(), model.versions);
  for (const std::int64_t missing : choice.missing) {
    ModelStatus& status = entry.versions[missing].status;
    status.name = model.name;
    status.version = std::to_string(missing);
    status.reason = fmt::format("version_policy names version {}, which has no folder", missing);
    LogFailed(status);
  }
  for (const std::int64_t version : choice.serve) {
    const std::string name = std::to_string(version);
    const std::filesystem::path path = directory / name / file->settings.filename;
    entry.versions[version] =
        LoadVersion({model.name, name, path.string(), *file}, device, options);
  }
  if (entry.versions.empty()) {
    entry.problem = "version_policy chooses no version";
    LogFailed({model.name, "", ModelState::kUnavailable, entry.problem, "", 0, Nanoseconds(0)});
  }
  return entry;
}

ModelTable::Version ModelTable::LoadVersion(ModelSource source, Device& device,
                                            const LoadOptions& options) {
  Version version;
  ModelStatus& status = version.status;
  status.name = source.name;
  status.version = source.version;
  const TimePoint start = Now();
  Result<std::unique_ptr<ServedModel>> model =
      ServedModel::Load(std::move(source), device, options);
  status.load_ms = ToMilliseconds(Now() - start);
  if (!model) {
    status.reason = std::move(model).error().message;
    LogFailed(status);
    return version;
  }
  version.served = *std::move(model);
  status.state = ModelState::kReady;
  status.job_class = version.served->settings().job_class;
  status.standalone = version.served->Standalone();
  status.warning = version.served->DeadlineWarning();
  LogLoaded(*version.served, status);
  return version;
}

void ModelTable::AddQueues(Device& device, Dispatcher& dispatcher) {
  const auto find = [this](const std::string& name) -> Result<const ServedModel*> {
    LAGOON_ASSIGN_OR_RETURN(const ServedModel* found, Find(name, ""));
    return found;
  };
  for (const bool programs : {false, true}) {  // models first: programs run models that have queues
    for (auto& [name, entry] : models_) {
      for (auto& [number, version] : entry.versions) {
        if (version.served == nullptr || version.served->is_program() != programs) continue;
        const Status added = programs ? version.served->StartProgram(device, dispatcher, find)
                                      : version.served->AddQueues(dispatcher);
        if (added) continue;
        version.status.state = ModelState::kUnavailable;
        version.status.reason = added.error().message;
        LogFailed(version.status);
      }
    }
  }
}

std::vector<ServedModel*> ModelTable::Programs() const {
  std::vector<ServedModel*> programs;
  for (const auto& [name, entry] : models_) {
    for (const auto& [number, version] : entry.versions) {
      if (version.served != nullptr && version.served->is_program())
        programs.push_back(version.served.get());
    }
  }
  return programs;
}

void ModelTable::StopPrograms() {
  for (ServedModel* const program : Programs()) program->StopProgram();
}

void ModelTable::CancelInPrograms(JobId job, Dispatcher& dispatcher) {
  for (ServedModel* const program : Programs()) program->Cancel(job, dispatcher);
}

Result<ServedModel*> ModelTable::Find(const std::string& model, const std::string& version) const {
  LAGOON_ASSIGN_OR_RETURN(const Entry* entry, FindEntry(model));
  const Version* found = nullptr;
  if (version.empty()) {
    // If no version is served, the error is about the highest one.
    for (auto at = entry->versions.rbegin(); at != entry->versions.rend(); ++at) {
      const bool ready = at->second.status.state == ModelState::kReady;
      if (found == nullptr || ready) found = &at->second;
      if (ready) break;
    }
  } else {
    const auto at = entry->versions.find(ParseVersion(version));
    if (at == entry->versions.end()) {
      return Fail(
          ErrorCode::kNotFound,
          fmt::format("model '{}' has no version {} among those served", model, Quoted(version)));
    }
    found = &at->second;
  }
  if (found->status.state != ModelState::kReady) {
    return NotServed(fmt::format("model {} version {}", Quoted(model), found->status.version));
  }
  return found->served.get();
}

Result<const ModelTable::Entry*> ModelTable::FindEntry(const std::string& model) const {
  const auto entry = models_.find(model);
  if (entry == models_.end()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("model {} is not in the repository", Quoted(model)));
  }
  if (!entry->second.problem.empty()) {
    return NotServed(fmt::format("model {}", Quoted(model)));
  }
  return &entry->second;
}

Result<std::vector<const ServedModel*>> ModelTable::FindAll(const std::string& model) const {
  std::vector<const ServedModel*> found;
  const auto add = [&](const Entry& entry) {
    for (const auto& [number, version] : entry.versions) {
      if (version.status.state == ModelState::kReady) found.push_back(version.served.get());
    }
  };
  if (!model.empty()) {
    LAGOON_ASSIGN_OR_RETURN(const Entry* entry, FindEntry(model));
    add(*entry);
    return found;
  }
  for (const auto& [name, entry] : models_) add(entry);
  return found;
}

std::vector<ModelStatus> ModelTable::Statuses() const {
  std::vector<ModelStatus> statuses;
  for (const auto& [name, entry] : models_) {
    if (!entry.problem.empty()) {
      statuses.push_back(
          {name, "", ModelState::kUnavailable, entry.problem, "", 0, Nanoseconds(0)});
    }
    for (const auto& [number, version] : entry.versions) statuses.push_back(version.status);
  }
  return statuses;
}

}  // namespace lagoon
