#include "base/cache_folder.h"

#include <cstdlib>
#include <filesystem>

namespace lagoon {

namespace fs = std::filesystem;

std::string CacheFolder(std::string_view kind) {
  // Unsafe only while another thread changes the environment; Lagoon never changes it.
  const char* cache = std::getenv("XDG_CACHE_HOME");  // NOLINT(concurrency-mt-unsafe)
  if (cache != nullptr && *cache != 0) return fs::path(cache) / "lagoon" / kind;
  const char* home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  if (home != nullptr && *home != 0) return fs::path(home) / ".cache" / "lagoon" / kind;
  return "";
}

}  // namespace lagoon
