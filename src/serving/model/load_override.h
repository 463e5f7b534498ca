#pragma once

// Models that a client describes with its load (LoadOverride).

#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "serving/config/config_file.h"
#include "serving/core/repository_control.h"

namespace lagoon {

inline constexpr std::size_t kMaxOverrideFiles = 256;

/// The config of `with`. kInvalidArgument says what is wrong with it, or that files came without
/// one; kUnimplemented: it is of a job program, whose code a client must not bring.
Result<ConfigFile> ReadOverride(const std::string& model, const LoadOverride& with);

/// Files of a client in a repository of their own, which is removed with this object.
class OverrideFolder {
 public:
  /// kInvalidArgument: there are more than kMaxOverrideFiles files, or a path is not one of a file
  /// inside the model's folder. kUnavailable: the files cannot be written.
  static Result<std::unique_ptr<OverrideFolder>> Make(
      const std::string& model, const std::map<std::string, std::string>& files);
  ~OverrideFolder();
  OverrideFolder(const OverrideFolder&) = delete;
  OverrideFolder& operator=(const OverrideFolder&) = delete;

  const std::string& repository() const { return path_; }

 private:
  explicit OverrideFolder(std::string path) : path_(std::move(path)) {}

  const std::string path_;
};

}  // namespace lagoon
