#pragma once

#include "base/mutex.h"
#include "base/thread.h"

namespace lagoon {

/// Like MutexLock, but tries for a moment before it sleeps. The device's lock is held for well
/// under a microsecond; a futex sleep and wake-up between two kernels would cost many microseconds.
class LAGOON_TSA(scoped_lockable) BusyLock {
 public:
  explicit BusyLock(Mutex& mutex) LAGOON_TSA(acquire_capability(mutex))
      LAGOON_TSA(no_thread_safety_analysis)  // the analysis cannot follow the loop
      : mutex_(mutex) {
    for (int i = 0; i < kTries; ++i) {
      if (mutex_.try_lock()) return;
      CpuPause();
    }
    mutex_.lock();
  }
  ~BusyLock() LAGOON_TSA(release_capability()) { mutex_.unlock(); }
  BusyLock(const BusyLock&) = delete;
  BusyLock& operator=(const BusyLock&) = delete;

 private:
  static constexpr int kTries = 200;  // about 5 us
  Mutex& mutex_;
};

}  // namespace lagoon
