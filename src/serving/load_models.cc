#include "serving/load_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/guard.h"
#include "base/log.h"
#include "base/thread.h"

namespace lagoon {
namespace {

using Entry = ModelTable::Entry;

void LogLoaded(const ServedModel& model, const ModelStatus& status) {
  for (const std::string& warning : status.warnings) {
    spdlog::warn("model '{}' version {}: {}", model.name(), model.version(), warning);
  }
  if (model.is_ensemble()) {
    return spdlog::info("model '{}' version {}: ensemble of {} step(s)", model.name(),
                        model.version(), model.settings().ensemble->steps.size());
  }
  const std::string alone =
      model.plan() == nullptr
          ? "no time alone is known"
          : fmt::format("{:.3f} ms alone{}{}", ToMilliseconds(status.standalone),
                        status.standalone_for.empty() ? "" : " for ", status.standalone_for);
  spdlog::info("model '{}' version {}: {}, {}, {} instance(s), loaded in {:.0f} ms", model.name(),
               model.version(), Name(model.settings().job_class), alone, model.settings().instances,
               status.load_ms);
}

/// Whatever goes wrong is about this version only.
void PrepareVersion(ModelSource source, Loading::Version& loading, Device& device,
                    const LoadOptions& options) {
  ModelStatus& status = loading.version.status;
  status.name = source.name;
  status.version = source.version;
  loading.of_file = source.file.warnings;
  const TimePoint start = Now();
  Result<std::unique_ptr<ServedModel>> model =
      WithoutExceptions([&] { return ServedModel::Prepare(std::move(source), device, options); });
  if (model) {
    loading.model = *std::move(model);
  } else {
    status.reason = model.error().message;
  }
  loading.took = Now() - start;
}

/// Finishes the version if it is prepared, and logs what became of it.
Entry::Version FinishVersion(Loading::Version& loading, Device& device,
                             const LoadOptions& options) {
  Entry::Version& version = loading.version;
  ModelStatus& status = version.status;
  const TimePoint start = Now();
  if (loading.model != nullptr) {
    const Status finished =
        WithoutExceptions([&] { return loading.model->Finish(device, options); });
    if (!finished) status.reason = finished.error().message;
    if (!finished) loading.model.reset();
  }
  status.load_ms = ToMilliseconds(loading.took + (Now() - start));
  if (loading.model == nullptr) {
    LogFailed(status);
    return std::move(version);
  }
  const ServedModel& loaded = *loading.model;
  status.state = ModelState::kReady;
  status.job_class = loaded.settings().job_class;
  status.standalone = loaded.Standalone();
  status.standalone_for = loaded.StandaloneFor();
  status.warnings = loaded.warnings();
  if (std::string late = loaded.DeadlineWarning(); !late.empty()) {
    status.warnings.push_back(std::move(late));
  }
  LogLoaded(loaded, status);
  status.warnings.insert(status.warnings.begin(), loading.of_file.begin(), loading.of_file.end());
  version.loaded =
      std::make_unique<LoadedVersion>(std::move(loading.model), ParseVersion(status.version));
  return std::move(version);
}

/// Whether a config that names no backend is of a Python model: its newest version has model.py and
/// no model.onnx. As Triton's own completion of configs.
bool IsUnnamedPython(const inference::ModelConfig& config, const RepositoryModel& model) {
  const bool named = !config.backend().empty() || !config.platform().empty() ||
                     !config.default_model_filename().empty() || config.has_ensemble_scheduling();
  if (named || model.versions.empty()) return false;
  const std::filesystem::path folder =
      std::filesystem::path(model.directory) / std::to_string(model.versions.back());
  std::error_code error;  // a folder that cannot be read is reported where its file is opened
  return std::filesystem::exists(folder / "model.py", error) &&
         !std::filesystem::exists(folder / "model.onnx", error);
}

}  // namespace

void LogFailed(const ModelStatus& status) {
  spdlog::error("model '{}'{}{}: not served: {}", status.name,
                status.version.empty() ? "" : " version ", status.version, status.reason);
}

void PrepareModel(Loading& loading, Device& device, const LoadOptions& options) {
  const RepositoryModel& model = *loading.model;
  const std::filesystem::path directory = model.directory;
  loading.entry = std::make_unique<Entry>();
  Entry& entry = *loading.entry;
  entry.problem = model.problem;
  Result<ConfigFile> file = Fail(ErrorCode::kInvalidArgument, model.problem);
  if (entry.problem.empty()) {
    file = loading.config != nullptr ? *loading.config
                                     : ReadConfig(model.name, directory / "config.pbtxt");
    if (!file) entry.problem = file.error().message;
  }
  if (!entry.problem.empty()) return;
  if (IsUnnamedPython(file->config, model)) {
    file->config.set_backend(std::string(kPythonBackend));
    std::vector<std::string> notes;  // are there already
    Result<ModelSettings> settings = ReadSettings(file->config, notes);
    if (!settings) {
      entry.problem = settings.error().message;
      return;
    }
    file->settings = *std::move(settings);
  }
  loading.warnings = file->warnings;
  const VersionChoice choice = ChooseVersions(file->config.version_policy(), model.versions);
  for (const std::int64_t missing : choice.missing) {
    ModelStatus& status = loading.versions[missing].version.status;
    status.name = model.name;
    status.version = std::to_string(missing);
    status.reason = fmt::format("version_policy names version {}, which has no folder", missing);
  }
  for (const std::int64_t version : choice.serve) {
    const std::string name = std::to_string(version);
    const std::string path = ModelPath(directory / name, file->settings.filename);
    PrepareVersion({model.name, name, model.directory, path, *file}, loading.versions[version],
                   device, options);
  }
  if (loading.versions.empty()) entry.problem = "version_policy chooses no version";
}

void PrepareModels(std::vector<Loading>& loadings, Device& device, const LoadOptions& options) {
  std::atomic<std::size_t> next{0};
  const auto prepare = [&] {
    for (std::size_t i = next++; i < loadings.size(); i = next++) {
      Loading& loading = loadings[i];
      const Status prepared = WithoutExceptions([&]() -> Status {
        PrepareModel(loading, device, options);
        return {};
      });
      if (prepared) continue;
      UntilMemorySuffices([&] {
        loading.versions.clear();
        loading.entry = std::make_unique<Entry>();
        loading.entry->problem = prepared.error().message;
      });
    }
  };
  const std::size_t cores =
      options.threads > 0 ? options.threads : std::max(std::thread::hardware_concurrency(), 1u);
  std::vector<std::jthread> helpers;
  for (std::size_t i = 1; i < std::min(cores, loadings.size()); ++i) {
    const auto help = [&prepare] {
      NameThisThread("lagoon-prepare");
      prepare();
    };
    // Where the system has no thread left, fewer do all.
    const Status helps = WithoutExceptions([&]() -> Status {
      helpers.emplace_back(help);
      return {};
    });
    if (!helps) break;
  }
  prepare();
}

std::unique_ptr<Entry> FinishModel(Loading& loading, Device& device, const LoadOptions& options) {
  for (const std::string& warning : loading.warnings) {
    spdlog::warn("model '{}': {}", loading.model->name, warning);
  }
  Entry& entry = *loading.entry;
  if (!entry.problem.empty()) LogFailed({.name = loading.model->name, .reason = entry.problem});
  for (auto& [number, version] : loading.versions) {
    entry.versions[number] = FinishVersion(version, device, options);
  }
  return std::move(loading.entry);
}

}  // namespace lagoon
