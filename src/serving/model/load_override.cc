#include "serving/model/load_override.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace lagoon {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxPathBytes = 256;
constexpr std::size_t kMaxNameBytes = 255;  // of a file or folder, in Linux's file systems

/// Whether `text` is the path of a file inside the folder that it is relative to.
bool IsInside(const std::string& text) {
  const fs::path path = text;
  const bool plain = !text.empty() && text.size() <= kMaxPathBytes &&
                     text.find('\0') == text.npos && path.is_relative() && path.has_filename();
  return plain && std::ranges::none_of(path, [](const fs::path& part) {
           return part == ".." || part == "." || part.empty();
         });
}

/// Whether a file system can have the name of each folder and file in `text`.
bool HasShortNames(const std::string& text) {
  return std::ranges::all_of(
      fs::path(text), [](const fs::path& part) { return part.native().size() <= kMaxNameBytes; });
}

tl::unexpected<Error> CannotWrite(const std::string& why) {
  return Fail(
      ErrorCode::kUnavailable,
      "the files of the request cannot be written to the server's temporary folder: " + why);
}

}  // namespace

Result<ConfigFile> ReadOverride(const std::string& model, const LoadOverride& with) {
  if (with.config.empty()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("model {}: files need the parameter 'config' beside them", Quoted(model)));
  }
  Result<ConfigFile> file = ParseJsonConfig(with.config, model);
  if (!file) return Annotate(fmt::format("model {}", Quoted(model)), std::move(file).error());
  if (file->settings.python && !with.files.empty()) {
    return Fail(
        ErrorCode::kUnimplemented,
        fmt::format("model {}: the config is one of a model of Python, whose files only the "
                    "repository may have",
                    Quoted(model)));
  }
  if (file->settings.program) {
    return Fail(ErrorCode::kUnimplemented,
                fmt::format("model {}: the config is one of a job program, which only the "
                            "repository may have",
                            Quoted(model)));
  }
  return file;
}

Result<std::unique_ptr<OverrideFolder>> OverrideFolder::Make(
    const std::string& model, const std::map<std::string, std::string>& files) {
  if (files.size() > kMaxOverrideFiles) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model {}: {} files came with the load; at most {} may", Quoted(model),
                            files.size(), kMaxOverrideFiles));
  }
  for (const auto& [path, contents] : files) {
    if (!HasShortNames(path)) {  // the code is Triton's
      return Fail(ErrorCode::kInternal,
                  fmt::format("failed to poll from model repository: {} has a name of more than {} "
                              "bytes",
                              Quoted(path), kMaxNameBytes));
    }
    const auto within = files.lower_bound(path + "/");
    if (within != files.end() && within->first.starts_with(path + "/")) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("model {}: {} cannot be a file, as {} lies in it", Quoted(model),
                              Quoted(path), Quoted(within->first)));
    }
    if (IsInside(path)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model {}: {} is not the path of a file in the model's folder",
                            Quoted(model), Quoted(path)));
  }
  if (!IsInside(model) || !HasShortNames(model) || model.find('/') != model.npos) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} cannot be a model's name", Quoted(model)));
  }
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  if (error) return CannotWrite(error.message());
  std::string path = (temporary / "lagoon-load-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) {
    return CannotWrite(std::generic_category().message(errno));
  }
  std::unique_ptr<OverrideFolder> folder(new OverrideFolder(std::move(path)));
  for (const auto& [name, contents] : files) {
    const fs::path file = fs::path(folder->path_) / model / name;
    fs::create_directories(file.parent_path(), error);
    if (error) return CannotWrite(error.message());
    std::ofstream stream(file, std::ios::binary);
    stream.write(contents.data(), static_cast<std::streamsize>(contents.size()));
    stream.close();
    if (!stream) return CannotWrite(fmt::format("no room for {} bytes", contents.size()));
  }
  return folder;
}

OverrideFolder::~OverrideFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace lagoon
