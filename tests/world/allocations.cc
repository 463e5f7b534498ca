// The allocations of the program: scheduling points, and counted.

#include <atomic>
#include <cstdlib>
#include <new>

#include "world/threads.h"
#include "world/world.h"

namespace lagoon::world {
namespace {

std::atomic<std::int64_t> live{0};

void* Allocate(std::size_t bytes) {
  OnAllocation();
  void* const data = std::malloc(bytes == 0 ? 1 : bytes);
  if (data != nullptr) live.fetch_add(1, std::memory_order_relaxed);
  return data;
}

void Free(void* data) {
  if (data != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
  std::free(data);
}

}  // namespace

std::int64_t LiveAllocations() { return live.load(); }

}  // namespace lagoon::world

// Not inlined: gcc warns where it sees free() on one side of a pair and new on the other.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* const data = lagoon::world::Allocate(bytes)) return data;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return lagoon::world::Allocate(bytes);
}
[[gnu::noinline]] void operator delete(void* data) noexcept { lagoon::world::Free(data); }
[[gnu::noinline]] void operator delete(void* data, const std::nothrow_t&) noexcept {
  lagoon::world::Free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept {
  lagoon::world::Free(data);
}
