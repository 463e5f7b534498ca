#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lagoon::cuda {

/// Compiled images on disk. The key of an image names everything that the image depends on. A file
/// that is truncated or damaged, or has another key or format version, counts as missing. Any
/// thread, any process.
class ImageCache {
 public:
  /// `folder`: created when it is needed; empty: nothing is kept.
  explicit ImageCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// $XDG_CACHE_HOME/lagoon/kernels, or ~/.cache/lagoon/kernels; empty when neither is known.
  static std::filesystem::path DefaultFolder();

  std::optional<std::string> Find(const std::string& key) const;
  /// Best effort: an image that cannot be written is compiled again next time. False: not written.
  bool Keep(const std::string& key, const std::string& image) const;

  std::filesystem::path FileOf(const std::string& key) const;

 private:
  const std::filesystem::path folder_;
};

}  // namespace lagoon::cuda
