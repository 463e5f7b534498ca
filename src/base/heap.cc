#include "base/heap.h"

#include <malloc.h>

namespace lagoon {

void ReturnFreedMemory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

std::size_t FreedMemory() {
#ifdef __GLIBC__
  return mallinfo2().fordblks;
#else
  return 0;
#endif
}

void KeepFreedMemory() {
#ifdef __GLIBC__
  // NOLINTBEGIN(concurrency-mt-unsafe): before the server has threads
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
  // NOLINTEND(concurrency-mt-unsafe)
#endif
}

}  // namespace lagoon
