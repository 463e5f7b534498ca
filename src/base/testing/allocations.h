#pragma once

// For tests: counts the program's allocations and notes the largest one. Replaces operator new, so
// one source of a test program includes this header and all sources are counted. Under
// ThreadSanitizer, which has its own operator new, LAGOON_COUNTS_ALLOCATIONS is not defined and the
// header is empty.

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LAGOON_HAS_OWN_NEW
#endif
#endif
#ifndef LAGOON_HAS_OWN_NEW
#define LAGOON_COUNTS_ALLOCATIONS

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace lagoon {

inline std::atomic<std::uint64_t> allocations{0};
inline std::atomic<std::size_t> largest_allocation{0};  // in bytes; a test sets it to 0

}  // namespace lagoon

// Not inlined: gcc warns where it sees free() on one side of a pair and new on the other.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  lagoon::allocations.fetch_add(1, std::memory_order_relaxed);
  std::size_t largest = lagoon::largest_allocation.load(std::memory_order_relaxed);
  while (largest < bytes && !lagoon::largest_allocation.compare_exchange_weak(
                                largest, bytes, std::memory_order_relaxed)) {
  }
  if (void* data = std::malloc(bytes == 0 ? 1 : bytes)) return data;
  std::abort();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return operator new(bytes);
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, const std::nothrow_t&) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { std::free(data); }

#endif
