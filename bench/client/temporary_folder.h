#pragma once

#include <string>
#include <utility>

#include "base/status.h"

namespace lagoon::bench {

/// A new, empty folder. The destructor removes the folder with all that is in it; so does the
/// keeper where a signal ends the process.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> Make();
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;  // empty: moved from
};

}  // namespace lagoon::bench
