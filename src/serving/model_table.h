#pragma once

// The versions of all models in the repository: those that are served and those that failed.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "device/device.h"
#include "serving/core/models.h"
#include "serving/model/load_override.h"
#include "serving/model/repository.h"
#include "serving/model/served_model.h"
#include "serving/request/loaded_version.h"

namespace lagoon {

/// Any thread may look up. One thread at a time may load, start or remove.
class ModelTable {
 public:
  /// The versions of a model.
  class Entry;
  /// Versions that were taken out of the table.
  using Removed = std::vector<std::unique_ptr<Lender<LoadedVersion>>>;
  /// A name stays in the table when its model is unloaded or fails to load. In a table of so many
  /// names, a new one takes the place of such a name; of new names that fail, half as many stay.
  static constexpr std::size_t kMostNames = 10'000;

  ModelTable();
  ~ModelTable();

  /// Loads the models of `repository` that can be loaded; only those among `names`, if they are
  /// given. A name that the repository does not have is a model that failed to load. The device
  /// must be idle. Errors are about the repository as a whole; the error of a single model is in
  /// its ModelStatus.
  Status Load(const std::string& repository, Device& device, const LoadOptions& options,
              const std::optional<std::vector<std::string>>& names);

  /// Starts every loaded version: its queues and batchers, or the job program. A version for which
  /// this fails becomes unavailable.
  void Start(Device& device, Dispatcher& dispatcher, PlanMaker& maker);
  /// Must be called before the dispatcher is destroyed.
  void StopPrograms();
  /// Must be called before the maker is destroyed. No request may be left.
  void StopBatchers();

  /// Loads one model as the repository has it now, or as a client gives it. The table does not
  /// change; Put() puts the result into it. kNotFound: the repository has no such model.
  /// kUnimplemented: a job program. Otherwise the reason why a version cannot be served.
  Result<std::unique_ptr<Entry>> LoadOne(const std::string& repository, const std::string& name,
                                         const LoadOverride& with, Device& device,
                                         const LoadOptions& options) const;
  /// Takes the memory that Put() needs. Returns room for what that takes out. Where memory runs
  /// out, no version changes.
  Removed MakeRoom(const std::string& name, Entry& entry);
  /// Puts a model into the table whose versions are started, in the place of the one of that name.
  /// Moves the versions of the latter to `removed`: they serve their leases, and no request finds
  /// them. MakeRoom() comes before, and no other change of this name between. Does not throw.
  void Put(const std::string& name, std::unique_ptr<Entry> entry, Removed& removed);
  /// kNotFound: the model is not in the table, or not loaded.
  Status CheckLoaded(const std::string& name) const;
  /// Statuses() tells from now on why the model, which is not loaded, could not be loaded when a
  /// client asked for it. Ignored while an older version serves, and for a new name where the table
  /// has kMostNames / 2 or more.
  void NoteFailure(const std::string& name, const std::string& reason);
  /// kInvalidArgument: the model is a job program, or one runs it. Such a model stays as it is.
  Status CheckMayChange(const std::string& name) const;

  /// The version named, or the highest one that is served if `version` is empty. kNotFound names
  /// the model or version; kUnavailable names them and refers to the log for the reason (Statuses()
  /// has the reason), or says that the model is not loaded.
  Result<ModelLease> Find(const std::string& model, const std::string& version) const;

  /// The models of the steps of an ensemble, by step. kUnavailable names the step of which no
  /// version is served.
  Result<std::vector<ModelLease>> FindSteps(const ServedModel& ensemble) const;
  /// The names of the models of the steps, if `entry` is an ensemble that was not put into the
  /// table yet.
  static std::vector<std::string> StepsOf(const Entry& entry);
  /// Whether the models that are served now fit the steps of `entry`, if that is an ensemble that
  /// was not put into the table yet. The errors are those of FindSteps() and ::lagoon::CheckSteps.
  Status CheckEnsemble(const Entry& entry) const;
  /// Makes each ensemble unavailable whose steps are not served or do not fit any more, and
  /// available again when they do. After Start(), and after each Put().
  void CheckEnsembles();

  /// All served versions of `model`, or of all models if it is empty, in order of names and
  /// versions.
  Result<std::vector<ModelLease>> FindAll(const std::string& model) const;

  /// By name, then version.
  std::vector<ModelStatus> Statuses() const;
  /// The models that are loaded or that failed to load.
  std::vector<std::string> Names() const;

 private:
  Result<ModelLease> FindVersion(const std::string& model, const std::string& version) const
      REQUIRES(mutex_);
  Result<std::vector<ModelLease>> FindStepsNow(const ServedModel& ensemble) const REQUIRES(mutex_);
  Status CheckNow(const ServedModel& ensemble) const REQUIRES(mutex_);
  Result<const Entry*> FindEntry(const std::string& model) const REQUIRES(mutex_);
  void LoadSteps(const std::vector<RepositoryModel>& models, Device& device,
                 const LoadOptions& options) EXCLUDES(mutex_);
  void LoadModels(const std::vector<const RepositoryModel*>& models, Device& device,
                  const LoadOptions& options) EXCLUDES(mutex_);
  void AddAbsent(const std::string& name) EXCLUDES(mutex_);
  Entry& PlaceOf(const std::string& name) REQUIRES(mutex_);
  std::vector<ServedModel*> Programs() const REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, std::unique_ptr<Entry>> models_ GUARDED_BY(mutex_);
};

/// One model of the table. Filled by one thread before it is in the table.
class ModelTable::Entry {
 public:
  struct Version {
    ModelStatus status;
    /// Before the version is lent. Null: the load failed.
    std::unique_ptr<LoadedVersion> loaded;
    std::unique_ptr<Lender<LoadedVersion>> lender;  // null: not lent
  };

  /// Lends the version, which has a lender: requests find it.
  static void Lend(Version& version);

  std::map<std::int64_t, Version> versions;
  std::unique_ptr<OverrideFolder> files;  // of a client's load; null: those of the repository
  std::string problem;                    // not empty: why no version is served
  bool not_loaded = false;                // was not asked for, or a client's load failed: `problem`
  bool absent = false;                    // was asked for, but is not in the repository: `problem`
};

}  // namespace lagoon
