#pragma once

// The versions of all models in the repository: those that are served and those that failed.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "serving/core.h"
#include "serving/repository.h"
#include "serving/served_model.h"

namespace lagoon {

/// Filled once, then immutable: any thread may look up.
class ModelTable {
 public:
  /// Loads every model of `repository` that can be loaded. The device must be idle. Errors are
  /// about the repository as a whole; the error of a single model is in its ModelStatus.
  Status Load(const std::string& repository, Device& device, const LoadOptions& options);

  /// Gives every loaded version its queues and starts the job programs. A version for which this
  /// fails becomes unavailable.
  void AddQueues(Device& device, Dispatcher& dispatcher);
  /// Must be called before the dispatcher is destroyed.
  void StopPrograms();
  /// Cancels the job in the program that runs it, if any.
  void CancelInPrograms(JobId job, Dispatcher& dispatcher);

  /// The version named, or the highest one that is served if `version` is empty. kNotFound names
  /// the model or version; kUnavailable names them and refers to the log for the reason (Statuses()
  /// has the reason).
  Result<ServedModel*> Find(const std::string& model, const std::string& version) const;

  /// All served versions of `model`, or of all models if it is empty, in order of names and
  /// versions.
  Result<std::vector<const ServedModel*>> FindAll(const std::string& model) const;

  /// By name, then version.
  std::vector<ModelStatus> Statuses() const;

 private:
  struct Version {
    std::unique_ptr<ServedModel> served;  // null if the load failed
    ModelStatus status;
  };
  struct Entry {
    std::map<std::int64_t, Version> versions;
    std::string problem;  // not empty: why no version is served
  };

  static Entry LoadModel(const RepositoryModel& model, Device& device, const LoadOptions& options);
  static Version LoadVersion(ModelSource source, Device& device, const LoadOptions& options);
  Result<const Entry*> FindEntry(const std::string& model) const;
  std::vector<ServedModel*> Programs() const;

  std::map<std::string, Entry> models_;
};

}  // namespace lagoon
