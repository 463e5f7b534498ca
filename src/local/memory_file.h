#pragma once

// A file in memory, for readers that take a path.

#include <cstddef>
#include <span>
#include <string>

#include "base/status.h"

namespace lagoon {

/// Lives as long as the object. The path is valid in this process only.
class MemoryFile {
 public:
  /// Copies the bytes. kResourceExhausted: no memory or no file descriptor is left.
  static Result<MemoryFile> Create(std::span<const std::byte> bytes);
  ~MemoryFile();
  MemoryFile(MemoryFile&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const;

 private:
  explicit MemoryFile(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace lagoon
