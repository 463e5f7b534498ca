#include "plan/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace lagoon {

void ReleaseToZero(std::byte* at, std::size_t bytes) {
  static const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t into = reinterpret_cast<std::uintptr_t>(at) % page;
  const std::size_t head = std::min(bytes, into == 0 ? 0 : page - into);
  const std::size_t whole = (bytes - head) / page * page, tail = bytes - head - whole;
  std::memset(at, 0, head);
  std::memset(at + head + whole, 0, tail);
  if (whole == 0) return;
  // Advice only: with a huge page, the first byte that is written takes 2 MiB.
  static_cast<void>(madvise(at + head, whole, MADV_NOHUGEPAGE));
  // Locked pages cannot be given back.
  if (madvise(at + head, whole, MADV_DONTNEED) != 0) std::memset(at + head, 0, whole);
}

}  // namespace lagoon
