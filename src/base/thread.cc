#include "base/thread.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>
#include <thread>

namespace lagoon {

void NameThisThread(const std::string& name) {
  // Fails only for names over 15 characters. The name is for people only.
  static_cast<void>(pthread_setname_np(pthread_self(), name.substr(0, 15).c_str()));
}

// In Linux a thread has a scheduling class and a nice value of its own.
bool GiveWay(pid_t thread) {
  const sched_param none{};
  return ::sched_setscheduler(thread, SCHED_IDLE, &none) == 0 ||
         ::setpriority(PRIO_PROCESS, static_cast<id_t>(thread), 19) == 0;
}

void TakeBack(pid_t thread) {
  const sched_param none{};
  static_cast<void>(::sched_setscheduler(thread, ::sched_getscheduler(0), &none));
  const int nice = ::getpriority(PRIO_PROCESS, 0);
  static_cast<void>(::setpriority(PRIO_PROCESS, static_cast<id_t>(thread), nice));
}

bool ThreadsMayGiveWay() {
  bool may = false;
  std::jthread([&may] { may = GiveWay(::gettid()); }).join();
  return may;
}

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
