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
  /// Copies the bytes, one piece after the other. kResourceExhausted: no memory or no file
  /// descriptor is left.
  static Result<MemoryFile> Create(std::span<const std::span<const std::byte>> pieces);
  static Result<MemoryFile> Create(std::span<const std::byte> bytes) { return Create({&bytes, 1}); }
  ~MemoryFile();
  MemoryFile(MemoryFile&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const;
  /// Fills `to` with the bytes from `offset` on, which must be there.
  Status ReadAt(std::size_t offset, std::span<std::byte> to) const;

 private:
  explicit MemoryFile(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace lagoon
