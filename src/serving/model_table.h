#pragma once

// What the repository holds and what became of it: versions served and versions that failed.

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
  /// Loads every model of `repository` that can be loaded. The device must be idle. Errors are of
  /// the repository as a whole; a model's own are in its row.
  Status Load(const std::string& repository, Device& device, const LoadOptions& options);

  /// Gives every loaded version its queues; one for which there is no room becomes unavailable.
  void AddQueues(Device& device, Dispatcher& dispatcher);
  /// Before the dispatcher goes.
  void StopPrograms();
  /// A job of whichever program has it.
  void CancelInPrograms(JobId job, Dispatcher& dispatcher);

  /// The version named, or the highest served if `version` is empty. kNotFound names the model or
  /// version; kUnavailable names them and refers to the log for the reason (Statuses() has it).
  Result<ServedModel*> Find(const std::string& model, const std::string& version) const;

  /// All served versions of `model`, or of all models if it is empty, in order of names and
  /// versions.
  Result<std::vector<const ServedModel*>> FindAll(const std::string& model) const;

  /// By name, then version.
  std::vector<ModelStatus> Statuses() const;

 private:
  struct Version {
    std::unique_ptr<ServedModel> served;  // as `status` says: null if the load failed
    ModelStatus status;
  };
  struct Entry {
    std::map<std::int64_t, Version> versions;
    std::string problem;  // not empty: nothing is served
  };

  static Entry LoadModel(const RepositoryModel& model, Device& device, const LoadOptions& options);
  static Version LoadVersion(ModelSource source, Device& device, const LoadOptions& options);
  Result<const Entry*> FindEntry(const std::string& model) const;
  std::vector<ServedModel*> Programs() const;

  std::map<std::string, Entry> models_;
};

}  // namespace lagoon
