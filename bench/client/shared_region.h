#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"

namespace lagoon::bench {

/// A region of POSIX shared memory that the server may open by its key. The destructor removes it.
/// One thread.
class SharedRegion {
 public:
  /// Makes a region of `bytes` zeros under a key of its own. kResourceExhausted: the system has no
  /// room for it.
  static Result<SharedRegion> Make(std::size_t bytes);
  SharedRegion(SharedRegion&& other) noexcept;
  SharedRegion& operator=(SharedRegion&&) = delete;
  ~SharedRegion();

  const std::string& key() const { return key_; }
  std::span<std::byte> memory() const { return memory_; }

 private:
  SharedRegion(std::string key, std::span<std::byte> memory);

  std::string key_;
  std::span<std::byte> memory_;
};

}  // namespace lagoon::bench
