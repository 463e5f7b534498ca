#pragma once

// Serving what the repository's folder has, while people change it.

#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "serving/core/repository_control.h"

namespace lagoon {

/// What the folder of a repository had when it was last looked at. One thread at a time.
class RepositoryFolder {
 public:
  /// Looks for the first time. Comes before the models are loaded, so that no change goes unseen.
  explicit RepositoryFolder(std::string repository);

  /// Looks again. Lets `control` load the models that are new or changed and unload those that are
  /// gone, and returns when it has. What changed is loaded by the first look that finds the same
  /// files as the look before, so that a model is not loaded while it is copied. A change that
  /// fails is logged, and tried again when another change succeeds, for the steps of an ensemble,
  /// or when the files change; where the device is away or too many changes wait, by the next look.
  /// While the repository cannot be read, nothing changes.
  ///
  /// Returns whether something is left for a look soon.
  bool Follow(RepositoryControl& control);

 private:
  /// A file or folder of a model; of a link, what it leads to.
  struct File {
    std::string path;
    bool folder = false;  // then without the following
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::int64_t bytes = 0;
    Nanoseconds modified{0};
    bool operator==(const File&) const = default;
  };
  /// In order of the paths. Empty: there is no such model.
  using Files = std::vector<File>;
  struct Model {
    Files served;  // when the model was loaded or unloaded last
    Files seen;    // by the last look
  };

  static Files FilesOf(const std::string& directory);
  static Result<std::map<std::string, Files>> Read(const std::string& repository);
  std::vector<std::string> Changed(std::map<std::string, Files> found, bool& unsettled);
  std::map<std::string, Error> Change(RepositoryControl& control,
                                      const std::vector<std::string>& names, bool& some_away);

  const std::string repository_;
  std::string problem_;  // why the repository could not be read by the last look; empty: it could
  std::map<std::string, Model> models_;
};

/// A thread that lets a server follow its repository's folder.
class RepositoryPoll {
 public:
  /// Looks every `period`, and sooner while something changes. `folder` and `control` outlive this.
  RepositoryPoll(RepositoryFolder& folder, RepositoryControl& control, Nanoseconds period);
  /// Waits for the changes that are under way.
  ~RepositoryPoll();
  RepositoryPoll(const RepositoryPoll&) = delete;
  RepositoryPoll& operator=(const RepositoryPoll&) = delete;

 private:
  void Run();
  bool Pause(Nanoseconds pause);

  RepositoryFolder& folder_;
  RepositoryControl& control_;
  const Nanoseconds period_;
  Mutex mutex_;
  CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace lagoon
