#include "local/memory_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace lagoon {

Result<MemoryFile> MemoryFile::Create(std::span<const std::span<const std::byte>> pieces) {
  MemoryFile file(memfd_create("lagoon-model", MFD_CLOEXEC));
  std::size_t bytes = 0, done = 0;
  for (const std::span<const std::byte> piece : pieces) {
    bytes += piece.size();
    std::span<const std::byte> left = piece;
    while (file.fd_ >= 0 && !left.empty()) {
      const ssize_t written = write(file.fd_, left.data(), left.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) break;
      left = left.subspan(static_cast<std::size_t>(written));
      done += static_cast<std::size_t>(written);
    }
  }
  if (file.fd_ < 0 || done < bytes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("no memory for a copy of the model of {} bytes: {}", bytes,
                            std::generic_category().message(errno)));
  }
  return file;
}

Status MemoryFile::ReadAt(std::size_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t got = pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("a copy of a model has no {} bytes at {}", to.size(), offset));
    }
    offset += static_cast<std::size_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

std::string MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", fd_); }

}  // namespace lagoon
