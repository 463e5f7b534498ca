#include "base/wait_word.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace lagoon {

void WaitOnWord(const std::atomic<std::uint32_t>& word, std::uint32_t value, TimePoint until) {
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  timespec time{};
  if (until != kNoDeadline) {
    const auto since = until.time_since_epoch();  // steady_clock is CLOCK_MONOTONIC
    if (since <= Nanoseconds(0)) return;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
    time.tv_sec = seconds.count();
    time.tv_nsec = (since - seconds).count();
  }
  // With the mask of all, the time is absolute and of CLOCK_MONOTONIC.
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, value,
            until == kNoDeadline ? nullptr : &time, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void WakeWord(const std::atomic<std::uint32_t>* word) {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace lagoon
