#include "local/memory_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace lagoon {

Result<MemoryFile> MemoryFile::Create(std::span<const std::byte> bytes) {
  MemoryFile file(memfd_create("lagoon-model", MFD_CLOEXEC));
  std::span<const std::byte> left = bytes;
  while (file.fd_ >= 0 && !left.empty()) {
    const ssize_t written = write(file.fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    left = left.subspan(static_cast<std::size_t>(written));
  }
  if (file.fd_ < 0 || !left.empty()) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("no memory for a copy of the model of {} bytes: {}", bytes.size(),
                            std::generic_category().message(errno)));
  }
  return file;
}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

std::string MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", fd_); }

}  // namespace lagoon
