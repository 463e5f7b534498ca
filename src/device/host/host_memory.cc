#include "device/host/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <new>
#include <string>
#include <utility>

namespace lagoon {
namespace {

constexpr std::size_t kAlignment = 64;
// Weights and arenas of at least 2 MiB start on a huge page, so that the rows of a tile need few
// TLB entries.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::align_val_t AlignmentOf(std::size_t bytes) {
  return std::align_val_t{bytes >= kHugePage ? kHugePage : kAlignment};
}

std::size_t MachineMemory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

HostMemory::HostMemory(std::size_t limit_bytes, std::string device)
    : limit_bytes_(limit_bytes != 0 ? limit_bytes : MachineMemory()), device_(std::move(device)) {}

bool HostMemory::Take(std::size_t bytes) {
  // relaxed: only a count. The allocator synchronises the memory itself.
  std::size_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_bytes_ - used) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

Result<Buffer> HostMemory::Allocate(std::size_t bytes) {
  if (bytes == 0) return Buffer();
  const auto fail = [&](const char* why) {
    const std::size_t used = used_bytes_.load(std::memory_order_relaxed);
    return Fail(ErrorCode::kResourceExhausted,
                "device '" + device_ + "': cannot allocate " + std::to_string(bytes) +
                    " bytes: " + why + " (" + std::to_string(limit_bytes_ - used) + " of " +
                    std::to_string(limit_bytes_) + " bytes are free)");
  };
  if (!Take(bytes)) return fail("over the memory limit");
  void* data = ::operator new(bytes, AlignmentOf(bytes), std::nothrow);
  if (data == nullptr) {
    used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    return Fail(ErrorCode::kResourceExhausted,
                "device '" + device_ + "': cannot allocate " + std::to_string(bytes) +
                    " bytes: the system, or a limit of the process (`ulimit -v`, a container's), "
                    "gives no more");
  }
  if (bytes >= kHugePage) {
    // Advice only: without huge pages everything works, but slower.
    static_cast<void>(madvise(data, bytes, MADV_HUGEPAGE));
  }
  return Buffer(data, bytes, shared_from_this());
}

void HostMemory::Free(void* data, std::size_t bytes) {
  ::operator delete(data, AlignmentOf(bytes));
  used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
}

}  // namespace lagoon
