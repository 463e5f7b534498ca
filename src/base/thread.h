#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "base/time.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lagoon {

/// For people who look at the threads of a process. Longer names are cut after 15 characters.
void NameThisThread(const std::string& name);

/// From now on the system runs a thread of this process only where no other one wants the core: the
/// idle class (SCHED_IDLE), or where the system refuses that, nice 19. Needs no permission. False:
/// the system refuses both. `thread`: the system's number.
bool GiveWay(pid_t thread);

/// The thread has the class and the nice value of the calling thread from now on, if the system
/// permits that: to root (CAP_SYS_NICE), and to whom RLIMIT_NICE allows the nice value.
void TakeBack(pid_t thread);

/// Whether GiveWay() succeeds for threads of this process.
bool ThreadsMayGiveWay();

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
