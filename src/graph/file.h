#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"

namespace lagoon {

/// A regular file, open for reading. Move-only; closes itself.
class File {
 public:
  /// Follows symbolic links. kNotFound if there is none; kInvalidArgument for a folder, a device or
  /// a file that may not be read. Never blocks on a pipe.
  static Result<File> Open(const std::string& path);

  /// Opens `location`, which came out of an untrusted file, below `folder`: it must be relative,
  /// without "..", and no part of it may be a symbolic link.
  static Result<File> OpenBeneath(const std::string& folder, const std::string& location);

  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~File();

  int fd() const { return fd_; }
  std::size_t size() const { return size_; }  // when it was opened

  /// Fills `to` from `offset` on; fails if the file ends before.
  Status ReadAt(std::size_t offset, std::span<std::byte> to) const;

 private:
  explicit File(int fd) : fd_(fd) {}
  static Result<File> FromDescriptor(int fd, const std::string& shown);

  int fd_ = -1;
  std::size_t size_ = 0;
};

}  // namespace lagoon
