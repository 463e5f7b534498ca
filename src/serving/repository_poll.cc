#include "serving/repository_poll.h"

#include <fmt/format.h>
#include <fts.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/guard.h"
#include "base/log.h"
#include "base/thread.h"
#include "serving/model/repository.h"

namespace lagoon {
namespace {

// Of one model. A link to a large folder must not keep the poll busy for ever.
constexpr std::size_t kMostFiles = 100'000;
// Between two looks while files change.
constexpr std::chrono::seconds kSettles{1};

/// Whether a file or folder of this name says nothing about the model: the interpreter writes
/// `__pycache__` when it loads one.
bool Ignored(std::string_view name) { return name.starts_with('.') || name == "__pycache__"; }

int ByName(const FTSENT** left, const FTSENT** right) {
  return std::strcmp((*left)->fts_name, (*right)->fts_name);
}

}  // namespace

RepositoryFolder::RepositoryFolder(std::string repository) : repository_(std::move(repository)) {
  Result<std::map<std::string, Files>> found = Read(repository_);
  if (!found) return;  // the server does not start
  for (const auto& [name, files] : *found) models_[name] = {.served = files, .seen = files};
}

/// Links are followed; a circle of them ends where it closes.
RepositoryFolder::Files RepositoryFolder::FilesOf(const std::string& directory) {
  std::string path = directory;
  const std::array<char*, 2> roots = {path.data(), nullptr};
  const std::unique_ptr<FTS, int (*)(FTS*)> walk(
      // NOLINTNEXTLINE(concurrency-mt-unsafe): safe for a walk that no other thread uses.
      ::fts_open(roots.data(), FTS_LOGICAL | FTS_NOCHDIR, ByName), ::fts_close);
  if (walk == nullptr) throw std::bad_alloc();
  Files files;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): as above.
  while (FTSENT* const entry = ::fts_read(walk.get())) {
    if (entry->fts_info == FTS_DP) continue;  // a folder that is left
    if (entry->fts_level > 0 && Ignored(entry->fts_name)) {
      ::fts_set(walk.get(), entry, FTS_SKIP);
      continue;
    }
    if (files.size() == kMostFiles) {
      spdlog::warn("{}: has more than {} files; changes of the others go unseen", directory,
                   kMostFiles);
      break;
    }
    File& file = files.emplace_back();
    file.path = entry->fts_path;
    file.folder = entry->fts_info == FTS_D;
    const bool unread = entry->fts_info == FTS_NS || entry->fts_info == FTS_DNR;
    if (file.folder || unread) continue;
    const struct stat& status = *entry->fts_statp;
    file.device = status.st_dev;
    file.inode = status.st_ino;
    file.bytes = status.st_size;
    file.modified =
        std::chrono::seconds(status.st_mtim.tv_sec) + Nanoseconds(status.st_mtim.tv_nsec);
  }
  if (errno == ENOMEM && files.size() < kMostFiles) throw std::bad_alloc();
  return files;
}

Result<std::map<std::string, RepositoryFolder::Files>> RepositoryFolder::Read(
    const std::string& repository) {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<RepositoryModel> models, ScanRepository(repository));
  std::map<std::string, Files> found;
  for (const RepositoryModel& model : models) found[model.name] = FilesOf(model.directory);
  return found;
}

/// The models that are to be loaded or unloaded. `unsettled`: whether others change still.
std::vector<std::string> RepositoryFolder::Changed(std::map<std::string, Files> found,
                                                   bool& unsettled) {
  std::vector<std::string> changed;
  for (auto& [name, files] : found) models_.try_emplace(name);
  for (auto& [name, model] : models_) {
    Files& now = found[name];
    const bool settled = now == model.seen;
    model.seen = std::move(now);
    if (model.seen == model.served) continue;
    if (settled) {
      changed.push_back(name);
    } else {
      unsettled = true;
    }
  }
  std::erase_if(models_, [](const auto& one) {
    return one.second.served == Files{} && one.second.seen == Files{};
  });
  return changed;
}

/// Returns the errors by model. `some_away`: whether some could not be made at this moment.
std::map<std::string, Error> RepositoryFolder::Change(RepositoryControl& control,
                                                      const std::vector<std::string>& names,
                                                      bool& some_away) {
  std::vector<std::future<Status>> changes;
  for (const std::string& name : names) {
    const auto made = std::make_shared<std::promise<Status>>();
    changes.push_back(made->get_future());
    auto done = [made](Status status) { made->set_value(std::move(status)); };
    if (models_[name].seen.empty()) {
      spdlog::info("model '{}': its folder is gone from the repository", name);
      control.UnloadModel(name, std::move(done));
    } else {
      spdlog::info("model '{}': its folder is new or has changed", name);
      control.LoadModel(name, std::move(done));
    }
  }
  std::map<std::string, Error> errors;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Status made = changes[i].get();
    Model& model = models_[names[i]];
    if (!made && made.error().code == ErrorCode::kUnavailable) {
      some_away = true;
      continue;
    }
    model.served = model.seen;
    // A model that failed to load is gone without being unloaded.
    const bool gone = model.seen.empty() && !made && made.error().code == ErrorCode::kNotFound;
    if (!made && !gone) errors.emplace(names[i], made.error());
  }
  return errors;
}

bool RepositoryFolder::Follow(RepositoryControl& control) {
  Result<std::map<std::string, Files>> found = Read(repository_);
  if (!found) {
    if (found.error().message != std::exchange(problem_, found.error().message)) {
      spdlog::warn("{}; its models stay as they are", problem_);
    }
    return false;
  }
  problem_.clear();
  bool unsettled = false;
  const std::vector<std::string> changed = Changed(*std::move(found), unsettled);
  std::map<std::string, Error> errors = Change(control, changed, unsettled);
  if (!errors.empty() && errors.size() < changed.size()) {
    std::vector<std::string> failed;
    for (const auto& [name, error] : errors) failed.push_back(name);
    errors = Change(control, failed, unsettled);
  }
  for (const auto& [name, error] : errors) spdlog::warn("{}", error.message);
  return unsettled;
}

RepositoryPoll::RepositoryPoll(RepositoryFolder& folder, RepositoryControl& control,
                               Nanoseconds period)
    : folder_(folder), control_(control), period_(period), thread_([this] { Run(); }) {}

RepositoryPoll::~RepositoryPoll() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  changed_.NotifyAll();
}

void RepositoryPoll::Run() {
  NameThisThread("lagoon-poll");
  Nanoseconds pause = period_;
  while (Pause(pause)) {
    const Result<bool> soon =
        WithoutExceptions([this]() -> Result<bool> { return folder_.Follow(control_); });
    pause = !soon || *soon ? std::min<Nanoseconds>(period_, kSettles) : period_;
  }
}

/// Returns false when this is to stop.
bool RepositoryPoll::Pause(Nanoseconds pause) {
  const TimePoint until = Now() + pause;
  const MutexLock lock(mutex_);
  while (!stopped_ && Now() < until) changed_.WaitUntil(mutex_, until);
  return !stopped_;
}

}  // namespace lagoon
