#include "bench/client/temporary_folder.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "bench/client/keeper.h"

namespace lagoon::bench {

namespace fs = std::filesystem;

Result<TemporaryFolder> TemporaryFolder::Make() {
  std::string path = (fs::temp_directory_path() / "lagoon-bench-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr) {
    return Fail(ErrorCode::kInternal, fmt::format("cannot create a folder like '{}'", path));
  }
  KeepFolder(path);
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (path_.empty()) return;
  fs::remove_all(path_, ignored);
  ReleaseFolder(path_);
}

}  // namespace lagoon::bench
