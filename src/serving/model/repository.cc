#include "serving/model/repository.h"

#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

#include "serving/core/models.h"

namespace lagoon {
namespace {

namespace fs = std::filesystem;

/// Whether `path` is a link whose target is missing or cannot be read.
bool LeadsNowhere(const fs::path& path) {
  std::error_code unreadable, ignored;
  return !fs::exists(fs::status(path, unreadable)) && fs::is_symlink(path, ignored);
}

/// The sorted names of the folders in `path`, without hidden ones, and of links that lead nowhere:
/// each was meant to be a folder, and who opens it gets an error.
std::vector<std::string> Folders(const fs::path& path, std::error_code& error) {
  std::vector<std::string> names;
  // The iterator of std::filesystem would end the server where memory runs out.
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  errno = folder == nullptr ? errno : 0;
  const auto next = [&folder]() -> const dirent* {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): safe for a stream that no other thread reads.
    return folder == nullptr ? nullptr : ::readdir(folder.get());
  };
  while (const dirent* const entry = next()) {
    std::string name = static_cast<const char*>(entry->d_name);
    std::error_code ignored;
    const bool shown = !name.starts_with('.');
    if (shown && (fs::is_directory(path / name, ignored) || LeadsNowhere(path / name))) {
      names.push_back(std::move(name));
    }
    errno = 0;
  }
  error.assign(errno, std::generic_category());
  std::ranges::sort(names);
  return names;
}

RepositoryModel ScanModel(const fs::path& path) {
  RepositoryModel model;
  model.name = path.filename().string();
  model.directory = path.string();
  if (!IsModelName(model.name)) {
    model.problem = fmt::format(
        "the folder's name cannot be a model's: letters, digits, '.', '_' and '-', at most {}",
        kMostModelNameBytes);
    return model;
  }
  std::error_code error;
  const std::vector<std::string> folders = Folders(path, error);
  if (error) {
    model.problem =
        fmt::format("{}: {}: {}", model.directory,
                    LeadsNowhere(path) ? "is a link whose target cannot be read" : "cannot be read",
                    error.message());
    return model;
  }
  std::string others;
  for (const std::string& folder : folders) {
    const std::int64_t version = ParseVersion(folder);
    if (version > 0) {
      model.versions.push_back(version);
    } else {
      others += fmt::format("{}'{}'", others.empty() ? "; found " : ", ", folder);
    }
  }
  std::ranges::sort(model.versions);
  if (model.versions.empty()) {
    model.problem = fmt::format("{}: has no version: a folder named by a positive integer{}",
                                model.directory, others);
  }
  return model;
}

}  // namespace

std::int64_t ParseVersion(const std::string& text) {
  std::int64_t version = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, version);
  if (error != std::errc() || end != last || version <= 0 || text.front() == '0') return 0;
  return version;
}

std::string ModelPath(const std::string& version_folder, const std::string& filename) {
  const fs::path path = fs::path(version_folder) / filename;
  std::error_code error;  // a path that cannot be read is reported where the file is opened
  return fs::is_directory(path, error) ? (path / "model.onnx").string() : path.string();
}

Result<std::vector<RepositoryModel>> ScanRepository(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    return Fail(ErrorCode::kNotFound, fmt::format("repository '{}' does not exist", path));
  }
  if (!error && status.type() != fs::file_type::directory) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("repository '{}' is not a folder", path));
  }
  std::vector<std::string> folders;
  if (!error) folders = Folders(path, error);
  if (error) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("repository '{}' cannot be read: {}", path, error.message()));
  }
  // Clients do not see folders, which are recognised by their absolute paths (WithoutFolders()).
  std::error_code ignored;
  fs::path root = fs::absolute(path, ignored);
  if (ignored) root = path;
  std::vector<RepositoryModel> models;
  for (const std::string& folder : folders) models.push_back(ScanModel(root / folder));
  return models;
}

VersionChoice ChooseVersions(const inference::ModelVersionPolicy& policy,
                             const std::vector<std::int64_t>& available) {
  VersionChoice choice;
  if (policy.has_all()) {
    choice.serve = available;
  } else if (policy.has_specific()) {
    for (const std::int64_t version : policy.specific().versions()) {
      auto& list = std::ranges::binary_search(available, version) ? choice.serve : choice.missing;
      if (std::ranges::find(list, version) == list.end()) list.push_back(version);
    }
    std::ranges::sort(choice.serve);
    std::ranges::sort(choice.missing);
  } else {
    const std::size_t wanted = std::max<std::size_t>(policy.latest().num_versions(), 1);
    const std::size_t count = std::min(wanted, available.size());
    choice.serve.assign(available.end() - static_cast<std::ptrdiff_t>(count), available.end());
  }
  return choice;
}

}  // namespace lagoon
