#pragma once

// For tests: counts the program's allocations, notes the largest one, and lets one fail. Replaces
// operator new, so one source of a test program includes this header and all sources are counted.
// Under ThreadSanitizer, which has its own operator new, LAGOON_COUNTS_ALLOCATIONS is not defined
// and the header is empty.

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
#include <limits>
#include <new>

namespace lagoon {

inline std::atomic<std::uint64_t> allocations{0};
inline std::atomic<std::size_t> largest_allocation{0};  // in bytes; a test sets it to 0
// FailingAllocation counts down: those from 1 down to `last_failure` + 1 fail.
inline std::atomic<std::int64_t> allocations_until_failure{0}, last_failure{0};
inline std::atomic<std::size_t> failing_least_bytes{0}, failing_most_bytes{0};

/// While it lives, the `nth` allocation of all threads since its creation throws std::bad_alloc,
/// and the `times` - 1 after it. Those of fewer than `least_bytes`, or of more than `most_bytes`,
/// neither fail nor count. One at a time.
class FailingAllocation {
 public:
  explicit FailingAllocation(std::int64_t nth, std::int64_t times = 1, std::size_t least_bytes = 0,
                             std::size_t most_bytes = std::numeric_limits<std::size_t>::max()) {
    failing_least_bytes.store(least_bytes);
    failing_most_bytes.store(most_bytes);
    allocations_until_failure.store(nth);  // before the other: else earlier ones would fail
    last_failure.store(1 - times);
  }
  ~FailingAllocation() {
    last_failure.store(0);
    allocations_until_failure.store(0);
  }
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  /// Whether the first of these allocations was reached.
  static bool failed() { return allocations_until_failure.load() <= 0; }
};

}  // namespace lagoon

// Not inlined: gcc warns where it sees free() on one side of a pair and new on the other.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  const std::int64_t last = lagoon::last_failure.load(std::memory_order_relaxed);
  if (lagoon::allocations_until_failure.load(std::memory_order_relaxed) > last &&
      bytes >= lagoon::failing_least_bytes.load(std::memory_order_relaxed) &&
      bytes <= lagoon::failing_most_bytes.load(std::memory_order_relaxed)) {
    const std::int64_t left = lagoon::allocations_until_failure.fetch_sub(1);
    if (left <= 1 && left > last) throw std::bad_alloc();
  }
  lagoon::allocations.fetch_add(1, std::memory_order_relaxed);
  std::size_t largest = lagoon::largest_allocation.load(std::memory_order_relaxed);
  while (largest < bytes && !lagoon::largest_allocation.compare_exchange_weak(
                                largest, bytes, std::memory_order_relaxed)) {
  }
  if (void* data = std::malloc(bytes == 0 ? 1 : bytes)) return data;
  std::abort();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
[[gnu::noinline]] void operator delete(void* data) noexcept { std::free(data); }
[[gnu::noinline]] void operator delete(void* data, const std::nothrow_t&) noexcept {
  std::free(data);
}
[[gnu::noinline]] void operator delete(void* data, std::size_t) noexcept { std::free(data); }
// Those of arrays as well: AddressSanitizer's own ones would not come here.
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t& none) noexcept {
  return operator new(bytes, none);
}
void operator delete[](void* data) noexcept { operator delete(data); }
void operator delete[](void* data, const std::nothrow_t&) noexcept { operator delete(data); }
void operator delete[](void* data, std::size_t) noexcept { operator delete(data); }

#endif
