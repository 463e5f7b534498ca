#pragma once

// Waiting for a word until a time, which std::atomic::wait() cannot.

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <ctime>

#include "base/time.h"

namespace lagoon {

static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
              std::atomic<std::uint32_t>::is_always_lock_free);

/// Sleeps while `word` is `value`, at most until `until` of the steady clock. Wakes up without a
/// reason too: loop on the condition. Allocates nothing.
inline void FutexWait(const std::atomic<std::uint32_t>& word, std::uint32_t value,
                      TimePoint until) {
  timespec time{};
  const timespec* at = nullptr;
  if (until != kNoDeadline) {
    const auto since = until.time_since_epoch();  // the steady clock is CLOCK_MONOTONIC
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
    if (since < Nanoseconds(0)) return;
    time.tv_sec = static_cast<std::time_t>(seconds.count());
    time.tv_nsec = static_cast<long>((since - seconds).count());
    at = &time;
  }
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value, at, nullptr,
            FUTEX_BITSET_MATCH_ANY);
}

/// Wakes all that sleep. `word` is used as an address only: its owner may be gone.
inline void FutexWakeAll(const std::atomic<std::uint32_t>* word) {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lagoon
