#include "bench/temporary_repository.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace lagoon::bench {
namespace fs = std::filesystem;

Result<TemporaryRepository> TemporaryRepository::Link(const std::string& zoo,
                                                      const std::vector<std::string>& models) {
  TemporaryRepository repository;
  std::string pattern = (fs::temp_directory_path() / "lagoon-bench-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    return Fail(ErrorCode::kInternal, fmt::format("cannot create a folder like '{}'", pattern));
  }
  repository.path_ = pattern;
  for (const std::string& model : models) {
    const fs::path source = fs::absolute(fs::path(zoo) / model);
    if (!fs::exists(source)) {
      return Fail(ErrorCode::kNotFound, fmt::format("'{}' is not there; ./run models {} makes it",
                                                    source.string(), model));
    }
    std::error_code error;
    fs::create_directory_symlink(source, fs::path(pattern) / model, error);
    if (error) return Fail(ErrorCode::kInternal, fmt::format("'{}': {}", pattern, error.message()));
  }
  return repository;
}

TemporaryRepository::~TemporaryRepository() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace lagoon::bench
