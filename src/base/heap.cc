#include "base/heap.h"

#include <malloc.h>
#include <sys/mman.h>

#include <atomic>
#include <new>

namespace lagoon {
namespace {

std::size_t reserve_bytes = 0;
std::atomic<void*> reserve = nullptr;

// What operator new calls where it finds no memory; afterwards it tries again.
void TakeReserve() {
  void* const taken = reserve.exchange(nullptr);
  if (taken == nullptr) throw std::bad_alloc();
  munmap(taken, reserve_bytes);
}

}  // namespace

MemoryReserve::MemoryReserve(std::size_t bytes) {
  // Not from the heap: what is freed there stays with the heap of one thread.
  void* const region =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (region == MAP_FAILED) throw std::bad_alloc();
  reserve_bytes = bytes;
  reserve.store(region);
  std::set_new_handler(TakeReserve);
}

MemoryReserve::~MemoryReserve() {
  std::set_new_handler(nullptr);
  GiveUp();
}

bool MemoryReserve::Keep() {
  std::set_new_handler(nullptr);
  return reserve.load() != nullptr;
}

void MemoryReserve::GiveUp() {
  if (void* const region = reserve.exchange(nullptr)) munmap(region, reserve_bytes);
}

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
