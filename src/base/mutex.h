#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define LAGOON_TSA(x) __attribute__((x))
#else
#define LAGOON_TSA(x)
#endif
#ifndef GUARDED_BY  // absl, which comes with gRPC, has the same name with the same meaning
#define GUARDED_BY(mu) LAGOON_TSA(guarded_by(mu))
#endif
#define REQUIRES(mu) LAGOON_TSA(requires_capability(mu))
#define EXCLUDES(mu) LAGOON_TSA(locks_excluded(mu))

namespace lagoon {

/// std::mutex with clang's thread-safety annotations, which libstdc++ lacks.
class LAGOON_TSA(capability("mutex")) Mutex {
 public:
  void lock() LAGOON_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() LAGOON_TSA(release_capability()) { mutex_.unlock(); }
  bool try_lock() LAGOON_TSA(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class LAGOON_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LAGOON_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() LAGOON_TSA(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// Waits on a Mutex. Spurious wake-ups happen: loop on the condition. Takes no lock but the Mutex,
/// unlike std::condition_variable_any, which has a mutex of its own on the heap.
class CondVar {
 public:
  void Wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    cv_.wait(held);
    held.release();  // the caller unlocks
  }
  void WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point until) REQUIRES(mutex) {
    std::unique_lock<std::mutex> held(mutex.mutex_, std::adopt_lock);
    cv_.wait_until(held, until);
    held.release();
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace lagoon
