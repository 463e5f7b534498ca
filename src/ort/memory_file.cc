#include "ort/memory_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace lagoon::plugin {

Result<MemoryFile> MemoryFile::Create(std::string_view bytes) {
  MemoryFile file(memfd_create("lagoon-ort", MFD_CLOEXEC));
  std::size_t done = 0;
  while (file.fd_ >= 0 && done < bytes.size()) {
    const ssize_t written = write(file.fd_, bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  if (file.fd_ < 0 || done < bytes.size()) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("a graph of {} bytes as a file in memory: {}", bytes.size(),
                            std::generic_category().message(errno)));
  }
  return file;
}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

std::string MemoryFile::path() const { return fmt::format("/proc/self/fd/{}", fd_); }

}  // namespace lagoon::plugin
