#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/status.h"

namespace lagoon {

/// Where the external data of a model lie.
struct ExternalPlace {
  std::string folder;  // locations are relative to this; empty: there are no external data
  std::string model;   // path of the model's file, which may be a link; empty: given as bytes
};
/// Beside the file of a model.
ExternalPlace PlaceBeside(const std::string& model);

/// A regular file, open for reading. Move-only; closes itself.
class File {
 public:
  /// Follows symbolic links. kNotFound if the file does not exist; kInvalidArgument for a folder, a
  /// device or an unreadable file. Never blocks on a pipe.
  static Result<File> Open(const std::string& path);

  /// Opens `location` below `place.folder`. `location` comes from an untrusted file: it must be
  /// relative, and may not leave the folder by "..". Symbolic links are followed if they lead to a
  /// file below that folder, or below the folder in which `place.model` itself lies. So in Hugging
  /// Face's cache, where links to one folder of blobs stand for a model and its data.
  /// kInvalidArgument where `place.folder` is empty: there is none.
  static Result<File> OpenExternal(const ExternalPlace& place, const std::string& location);

  File(File&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), size_(other.size_), changed_ns_(other.changed_ns_) {}
  File& operator=(File&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(size_, other.size_);
    std::swap(changed_ns_, other.changed_ns_);
    return *this;
  }
  ~File();

  int fd() const { return fd_; }
  std::size_t size() const { return size_; }  // at the time of Open()

  /// Whether the file is as it was at the time of Open(): its size and the time of its last change.
  bool Unchanged() const;

  /// Fills `to` with the bytes from `offset` on; fails if the file ends before `to` is full.
  Status ReadAt(std::size_t offset, std::span<std::byte> to) const;

 private:
  explicit File(int fd) : fd_(fd) {}
  static Result<File> FromDescriptor(int fd, const std::string& shown);

  int fd_ = -1;
  std::size_t size_ = 0;
  std::int64_t changed_ns_ = 0;  // time of the last change
};

}  // namespace lagoon
