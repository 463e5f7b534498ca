#pragma once

// Waiting for a word of memory, with a deadline, which std::atomic does not have.

#include <atomic>
#include <cstdint>

#include "base/time.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lagoon {

/// A hint to the core that this is a spin loop.
inline void CpuPause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Sleeps while the word has `value`, until WakeWord() or `until`. May return early: look at the
/// word. Allocates nothing; the only system call is a futex.
void WaitOnWord(const std::atomic<std::uint32_t>& word, std::uint32_t value, TimePoint until);

/// Wakes all threads that sleep on the word, after a change of the word. The word's memory may be
/// gone by now: only its address is used.
void WakeWord(const std::atomic<std::uint32_t>* word);

}  // namespace lagoon
