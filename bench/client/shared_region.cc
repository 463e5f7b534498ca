#include "bench/client/shared_region.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

namespace lagoon::bench {

SharedRegion::SharedRegion(std::string key, std::span<std::byte> memory)
    : key_(std::move(key)), memory_(memory) {}

SharedRegion::SharedRegion(SharedRegion&& other) noexcept
    : key_(std::exchange(other.key_, {})), memory_(std::exchange(other.memory_, {})) {}

SharedRegion::~SharedRegion() {
  if (key_.empty()) return;
  munmap(memory_.data(), memory_.size());
  shm_unlink(key_.c_str());
}

Result<SharedRegion> SharedRegion::Make(std::size_t bytes) {
  static std::atomic<int> made{0};
  std::string key = fmt::format("/lagoon-bench-{}-{}", getpid(), made.fetch_add(1));
  const auto fail = [&](int error) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("shared memory '{}' of {} bytes: {}", key, bytes,
                            std::generic_category().message(error)));
  };
  const int file = shm_open(key.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0) return fail(errno);
  // Takes the memory now: a page that the system lacks later would end this process.
  int error = posix_fallocate(file, 0, static_cast<off_t>(bytes));
  void* memory = MAP_FAILED;
  if (error == 0) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) error = errno;
  }
  close(file);
  if (error != 0) {
    shm_unlink(key.c_str());
    return fail(error);
  }
  return SharedRegion(std::move(key), {static_cast<std::byte*>(memory), bytes});
}

}  // namespace lagoon::bench
