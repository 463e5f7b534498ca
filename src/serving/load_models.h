#pragma once

// Loading the models of a repository: prepared on several threads, and finished one after the other
// on the device. Whatever goes wrong is about one model, or one version of it.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "serving/config/config_file.h"
#include "serving/model/repository.h"
#include "serving/model/served_model.h"
#include "serving/model_table.h"

namespace lagoon {

/// A model while it is loaded.
struct Loading {
  struct Version {
    ModelTable::Entry::Version version;
    std::unique_ptr<ServedModel> model;
    std::vector<std::string> of_file = {};  // warnings, which the log has
    Nanoseconds took{0};
  };

  const RepositoryModel* model = nullptr;
  const ConfigFile* config = nullptr;  // in place of the model's config.pbtxt; null: that one
  std::unique_ptr<ModelTable::Entry> entry = {};
  std::vector<std::string> warnings = {};  // of the config file
  std::map<std::int64_t, Version> versions = {};
};

/// Reads the config and prepares the versions. Logs nothing.
void PrepareModel(Loading& loading, Device& device, const LoadOptions& options);
/// The same for all, on several threads (LoadOptions::threads).
void PrepareModels(std::vector<Loading>& loadings, Device& device, const LoadOptions& options);
/// Finishes the versions that are prepared, and logs what became of the model.
std::unique_ptr<ModelTable::Entry> FinishModel(Loading& loading, Device& device,
                                               const LoadOptions& options);

void LogFailed(const ModelStatus& status);

}  // namespace lagoon
