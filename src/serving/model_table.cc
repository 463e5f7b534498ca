#include "serving/model_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/guard.h"
#include "base/log.h"
#include "base/text.h"
#include "serving/load_models.h"
#include "serving/model/ensemble_check.h"

namespace lagoon {
namespace {

/// Triton's clients compare how the message begins.
tl::unexpected<Error> UnknownModel(const std::string& why) {
  return Fail(ErrorCode::kNotFound, "Request for unknown model: " + why);
}

/// For remote clients, so without the reason, which names paths of the server. The log has it.
tl::unexpected<Error> NotServed(const std::string& what) {
  return Fail(ErrorCode::kUnavailable,
              what + " is in the repository but is not served; the server's log says why");
}

using Entry = ModelTable::Entry;

/// The model that a client describes: the files that it sent, or else those of the repository.
Result<RepositoryModel> FindModel(const std::string& repository, const std::string& name) {
  LAGOON_ASSIGN_OR_RETURN(std::vector<RepositoryModel> models, ScanRepository(repository));
  const auto found = std::ranges::find(models, name, &RepositoryModel::name);
  if (found != models.end()) return std::move(*found);
  return Fail(ErrorCode::kNotFound, fmt::format("model {} is not in the repository", Quoted(name)));
}

}  // namespace

void ModelTable::Entry::Lend(Version& version) { version.lender->Lend(std::move(version.loaded)); }

ModelTable::ModelTable() = default;
ModelTable::~ModelTable() = default;

Status ModelTable::Load(const std::string& repository, Device& device, const LoadOptions& options,
                        const std::optional<std::vector<std::string>>& names) {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<RepositoryModel> models, ScanRepository(repository));
  std::vector<const RepositoryModel*> asked;
  for (const RepositoryModel& model : models) {
    if (!names || std::ranges::find(*names, model.name) != names->end()) {
      asked.push_back(&model);
      continue;
    }
    auto entry = std::make_unique<Entry>();
    entry->not_loaded = true;
    const MutexLock lock(mutex_);
    models_[model.name] = std::move(entry);
  }
  LoadModels(asked, device, options);
  LoadSteps(models, device, options);
  for (const std::string& name : names.value_or(std::vector<std::string>())) AddAbsent(name);
  if (models.empty()) spdlog::warn("repository '{}' holds no model", repository);
  return {};
}

/// Loads the models of the steps of ensembles that were asked for. An ensemble is no step.
void ModelTable::LoadSteps(const std::vector<RepositoryModel>& models, Device& device,
                           const LoadOptions& options) {
  std::set<std::string> steps;
  {
    const MutexLock lock(mutex_);
    for (const auto& [name, entry] : models_) {
      for (const std::string& step : StepsOf(*entry)) {
        const auto found = models_.find(step);
        if (found != models_.end() && found->second->not_loaded) steps.insert(step);
      }
    }
  }
  std::vector<const RepositoryModel*> asked;
  for (const RepositoryModel& model : models) {
    if (steps.contains(model.name)) asked.push_back(&model);
  }
  LoadModels(asked, device, options);
}

/// Puts the models into the table, in order.
void ModelTable::LoadModels(const std::vector<const RepositoryModel*>& models, Device& device,
                            const LoadOptions& options) {
  std::vector<Loading> loadings;
  for (const RepositoryModel* const model : models) loadings.push_back({.model = model});
  PrepareModels(loadings, device, options);
  for (Loading& loading : loadings) {
    std::unique_ptr<Entry> entry = FinishModel(loading, device, options);
    const MutexLock lock(mutex_);
    models_[loading.model->name] = std::move(entry);
  }
}

/// Adds a model that was asked for, if the repository does not have it.
void ModelTable::AddAbsent(const std::string& name) {
  auto entry = std::make_unique<Entry>();
  entry->absent = true;
  entry->problem = "the repository has no model of this name";
  const MutexLock lock(mutex_);
  if (models_.contains(name)) return;
  LogFailed({.name = name, .reason = entry->problem});
  models_[name] = std::move(entry);
}

Result<std::unique_ptr<Entry>> ModelTable::LoadOne(const std::string& repository,
                                                   const std::string& name,
                                                   const LoadOverride& with, Device& device,
                                                   const LoadOptions& options) const {
  std::optional<ConfigFile> config;
  std::unique_ptr<OverrideFolder> files;
  if (!with.empty()) {
    LAGOON_ASSIGN_OR_RETURN(config, ReadOverride(name, with));
    if (!with.files.empty()) {
      LAGOON_ASSIGN_OR_RETURN(files, OverrideFolder::Make(name, with.files));
    }
  }
  LAGOON_ASSIGN_OR_RETURN(const RepositoryModel found,
                          FindModel(files == nullptr ? repository : files->repository(), name));
  Loading loading{.model = &found, .config = config ? &*config : nullptr};
  PrepareModel(loading, device, options);
  std::unique_ptr<Entry> entry = FinishModel(loading, device, options);
  entry->files = std::move(files);
  std::string problem = entry->problem;
  for (const auto& [number, version] : entry->versions) {
    if (version.loaded != nullptr && version.loaded->model->is_program()) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("model {} is a job program, which is loaded when the server starts",
                              Quoted(name)));
    }
    if (version.loaded == nullptr) {
      problem = fmt::format("version {}: {}", number, version.status.reason);
    }
  }
  if (problem.empty()) return entry;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("model {} cannot be loaded: {}", Quoted(name), problem));
}

ModelTable::Removed ModelTable::MakeRoom(const std::string& name, Entry& entry) {
  for (auto& [number, version] : entry.versions) {
    version.lender = std::make_unique<Lender<LoadedVersion>>();
  }
  Removed room;
  const MutexLock lock(mutex_);
  if (!models_.contains(name) && models_.size() >= kMostNames) {
    const auto idle =
        std::ranges::find_if(models_, [](const auto& one) { return one.second->not_loaded; });
    if (idle != models_.end()) models_.erase(idle);
  }
  room.reserve(PlaceOf(name).versions.size());
  return room;
}

/// The entry of this name; one that is not loaded if there was none.
Entry& ModelTable::PlaceOf(const std::string& name) {
  auto found = models_.find(name);
  if (found == models_.end()) {
    auto none = std::make_unique<Entry>();
    none->not_loaded = true;
    found = models_.emplace(name, std::move(none)).first;
  }
  return *found->second;
}

void ModelTable::Put(const std::string& name, std::unique_ptr<Entry> entry, Removed& removed) {
  for (auto& [number, version] : entry->versions) Entry::Lend(version);
  const MutexLock lock(mutex_);
  std::unique_ptr<Entry>& place = models_.find(name)->second;
  for (auto& [number, version] : place->versions) {
    if (version.lender == nullptr) continue;
    version.lender->Withdraw();
    removed.push_back(std::move(version.lender));
  }
  place = std::move(entry);
}

Status ModelTable::CheckLoaded(const std::string& name) const {
  const MutexLock lock(mutex_);
  const auto found = models_.find(name);
  const bool there = found != models_.end() && !found->second->absent;
  if (there && !found->second->not_loaded) return {};
  return Fail(ErrorCode::kNotFound, fmt::format("model {} is not loaded", Quoted(name)));
}

void ModelTable::NoteFailure(const std::string& name, const std::string& reason) {
  const MutexLock lock(mutex_);
  if (!models_.contains(name) && models_.size() >= kMostNames / 2) return;
  Entry& entry = PlaceOf(name);
  const bool refused = !entry.problem.empty();
  if (entry.not_loaded || refused) entry.problem = reason;
  entry.absent = false;
}

Status ModelTable::CheckMayChange(const std::string& name) const {
  const MutexLock lock(mutex_);
  for (const ServedModel* const program : Programs()) {
    if (program->name() == name) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("model {} is a job program, which is loaded when the server starts "
                              "and stays",
                              Quoted(name)));
    }
    for (const auto& [role, model] : program->settings().models) {
      if (model != name) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("model {} stays as it is: the job program {} runs it", Quoted(name),
                              Quoted(program->name())));
    }
  }
  return {};
}

void ModelTable::Start(Device& device, Dispatcher& dispatcher, PlanMaker& maker) {
  const auto find = [this](const std::string& name) -> Result<const ServedModel*> {
    LAGOON_ASSIGN_OR_RETURN(const ModelLease found, Find(name, ""));
    return found->model.get();  // stays: CheckMayChange()
  };
  std::vector<Entry::Version*> versions;
  {
    const MutexLock lock(mutex_);
    for (auto& [name, entry] : models_) {
      for (auto& [number, version] : entry->versions) {
        if (version.loaded != nullptr) versions.push_back(&version);
      }
    }
  }
  const auto note = [this](Entry::Version& version, const Status& started) {
    if (started) return;
    const MutexLock lock(mutex_);
    version.status.state = ModelState::kUnavailable;
    version.status.reason = started.error().message;
    LogFailed(version.status);
  };
  for (Entry::Version* const version : versions) {
    if (version->loaded->model->is_program()) continue;
    note(*version, WithoutExceptions([&] { return version->loaded->Start(dispatcher, maker); }));
  }
  // Lent before programs start: a program runs models that have queues, and may name any of them,
  // or a program by mistake.
  for (Entry::Version* const version : versions) {
    auto lender = std::make_unique<Lender<LoadedVersion>>();
    const MutexLock lock(mutex_);
    version->lender = std::move(lender);
    Entry::Lend(*version);
  }
  for (Entry::Version* const version : versions) {
    const ModelLease lease = version->lender->Borrow();
    if (!lease->model->is_program()) continue;
    note(*version, lease->model->StartProgram(device, dispatcher, find));
  }
  CheckEnsembles();
}

// ---- Ensembles

std::vector<std::string> ModelTable::StepsOf(const Entry& entry) {
  std::set<std::string> names;
  for (const auto& [number, version] : entry.versions) {
    if (version.loaded == nullptr || !version.loaded->model->is_ensemble()) continue;
    for (const EnsembleStep& step : version.loaded->model->settings().ensemble->steps) {
      names.insert(step.model);
    }
  }
  return {names.begin(), names.end()};
}

Result<std::vector<ModelLease>> ModelTable::FindSteps(const ServedModel& ensemble) const {
  const MutexLock lock(mutex_);
  return FindStepsNow(ensemble);
}

Result<std::vector<ModelLease>> ModelTable::FindStepsNow(const ServedModel& ensemble) const {
  std::vector<ModelLease> steps;
  for (const EnsembleStep& step : ensemble.settings().ensemble->steps) {
    Result<ModelLease> found = FindVersion(step.model, step.version);
    if (!found) {
      // Not kNotFound: the client has named the ensemble, which is there.
      return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", step.name, found.error().message));
    }
    steps.push_back(*std::move(found));
  }
  return steps;
}

Status ModelTable::CheckNow(const ServedModel& ensemble) const {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<ModelLease> leases, FindStepsNow(ensemble));
  std::vector<StepModel> steps;
  for (const ModelLease& lease : leases) {
    steps.push_back({lease->model->signature(), lease->model->settings()});
  }
  return ::lagoon::CheckSteps({ensemble.signature(), ensemble.settings()}, steps);
}

Status ModelTable::CheckEnsemble(const Entry& entry) const {
  const MutexLock lock(mutex_);
  for (const auto& [number, version] : entry.versions) {
    if (version.loaded == nullptr || !version.loaded->model->is_ensemble()) continue;
    LAGOON_RETURN_IF_ERROR(CheckNow(*version.loaded->model));
  }
  return {};
}

void ModelTable::CheckEnsembles() {
  const MutexLock lock(mutex_);
  for (const auto& [name, entry] : models_) {
    for (auto& [number, version] : entry->versions) {
      if (version.lender == nullptr) continue;
      const ModelLease lease = version.lender->Borrow();
      if (!lease || !lease->model->is_ensemble()) continue;
      ModelStatus& status = version.status;
      const Status fits = CheckNow(*lease->model);
      const std::string reason = fits ? "" : fits.error().message;
      if (status.reason == reason) continue;
      status.reason = reason;
      status.state = fits ? ModelState::kReady : ModelState::kUnavailable;
      if (!fits) LogFailed(status);
      if (fits) spdlog::info("model '{}' version {}: its steps are served again", name, number);
    }
  }
}

std::vector<ServedModel*> ModelTable::Programs() const {
  std::vector<ServedModel*> programs;
  for (const auto& [name, entry] : models_) {
    for (const auto& [number, version] : entry->versions) {
      if (version.lender == nullptr) continue;
      const ModelLease lease = version.lender->Borrow();
      if (lease && lease->model->is_program()) programs.push_back(lease->model.get());
    }
  }
  return programs;
}

void ModelTable::StopPrograms() {
  std::vector<ServedModel*> programs;
  {
    const MutexLock lock(mutex_);
    programs = Programs();
  }
  for (ServedModel* const program : programs) program->StopProgram();
}

void ModelTable::StopBatchers() {
  std::vector<ModelLease> served;
  {
    const MutexLock lock(mutex_);
    for (auto& [name, entry] : models_) {
      for (auto& [number, version] : entry->versions) {
        if (version.lender != nullptr) served.push_back(version.lender->Borrow());
      }
    }
  }
  // Without the mutex: a program that is stopped may be looking for a model that it calls.
  for (const ModelLease& version : served) version->StopBatchers();
}

Result<ModelLease> ModelTable::Find(const std::string& model, const std::string& version) const {
  const MutexLock lock(mutex_);
  return FindVersion(model, version);
}

Result<ModelLease> ModelTable::FindVersion(const std::string& model,
                                           const std::string& version) const {
  LAGOON_ASSIGN_OR_RETURN(const Entry* entry, FindEntry(model));
  const Entry::Version* found = nullptr;
  if (version.empty()) {
    // If no version is served, the error is about the highest one.
    for (auto at = entry->versions.rbegin(); at != entry->versions.rend(); ++at) {
      const bool ready = at->second.status.state == ModelState::kReady;
      if (found == nullptr || ready) found = &at->second;
      if (ready) break;
    }
  } else {
    const std::int64_t number = ParseVersion(version);
    if (number == 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("failed to get model version from specified version string {}: "
                              "versions of model {} are whole numbers from 1",
                              Quoted(version), Quoted(model)));
    }
    const auto at = entry->versions.find(number);
    if (at == entry->versions.end()) {
      return UnknownModel(fmt::format("{} version {} is not found", Quoted(model), Shown(version)));
    }
    found = &at->second;
  }
  if (found->status.state != ModelState::kReady) {
    return NotServed(fmt::format("model {} version {}", Quoted(model), found->status.version));
  }
  return found->lender->Borrow();
}

Result<const Entry*> ModelTable::FindEntry(const std::string& model) const {
  const auto entry = models_.find(model);
  if (entry == models_.end() || entry->second->absent) {
    return UnknownModel(fmt::format("{} is not found", Quoted(model)));
  }
  if (entry->second->not_loaded) {
    // Not kNotFound: another server may have it loaded, or this one soon.
    return Fail(ErrorCode::kUnavailable,
                fmt::format("Request for unknown model: {} has no available versions: it is not "
                            "loaded",
                            Quoted(model)));
  }
  if (!entry->second->problem.empty()) {
    return NotServed(fmt::format("model {}", Quoted(model)));
  }
  return entry->second.get();
}

Result<std::vector<ModelLease>> ModelTable::FindAll(const std::string& model) const {
  const MutexLock lock(mutex_);
  std::vector<ModelLease> found;
  const auto add = [&](const Entry& entry) {
    for (const auto& [number, version] : entry.versions) {
      if (version.status.state != ModelState::kReady || version.lender == nullptr) continue;
      found.push_back(version.lender->Borrow());
    }
  };
  if (!model.empty()) {
    LAGOON_ASSIGN_OR_RETURN(const Entry* entry, FindEntry(model));
    add(*entry);
    return found;
  }
  for (const auto& [name, entry] : models_) add(*entry);
  return found;
}

std::vector<ModelStatus> ModelTable::Statuses() const {
  const MutexLock lock(mutex_);
  std::vector<ModelStatus> statuses;
  for (const auto& [name, entry] : models_) {
    const bool unasked = entry->not_loaded && entry->problem.empty();
    const std::string reason = unasked ? std::string(kNotLoaded) : entry->problem;
    if (!reason.empty()) {
      statuses.push_back({.name = name, .reason = reason});
    }
    for (const auto& [number, version] : entry->versions) statuses.push_back(version.status);
  }
  return statuses;
}

std::vector<std::string> ModelTable::Names() const {
  const MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, entry] : models_) {
    if (!entry->not_loaded) names.push_back(name);
  }
  return names;
}

}  // namespace lagoon
