#include "device/cuda/driver/image_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/cache_folder.h"
#include "base/digest.h"

namespace lagoon::cuda {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFormat = "lagoon-image 2";

// The header contains the key, so two keys with the same digest cannot be confused.
std::string Header(const std::string& key, std::string_view image) {
  return fmt::format("{} {} {} {:016x}\n{}", kFormat, key.size(), image.size(), Digest(image), key);
}

}  // namespace

fs::path ImageCache::DefaultFolder() { return CacheFolder("kernels"); }

fs::path ImageCache::FileOf(const std::string& key) const {
  return folder_ / fmt::format("{:016x}.image", Digest(key));
}

std::optional<std::string> ImageCache::Find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream file(FileOf(key), std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream read;
  read << file.rdbuf();
  const std::string text = read.str();
  // Any damage shows when the header is computed anew from the rest of the file.
  const std::size_t line = text.find('\n');
  if (line == std::string::npos || text.size() - line - 1 < key.size()) return std::nullopt;
  const std::string image = text.substr(line + 1 + key.size());
  const std::string header = Header(key, image);
  if (image.empty() || text.compare(0, header.size(), header) != 0) return std::nullopt;
  return image;
}

bool ImageCache::Keep(const std::string& key, const std::string& image) const {
  if (folder_.empty()) return false;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return false;
  // Written under another name first, so that no reader sees half of a file.
  static std::atomic<unsigned> next{0};
  fs::path temporary = FileOf(key);
  temporary += fmt::format(".{}.{}", getpid(), next.fetch_add(1));
  {
    std::ofstream file(temporary, std::ios::binary);
    file << Header(key, image) << image;
    file.close();
    if (!file) {
      fs::remove(temporary, error);
      return false;
    }
  }
  fs::rename(temporary, FileOf(key), error);
  if (error) fs::remove(temporary, error);
  return !error;
}

}  // namespace lagoon::cuda
