#include "base/mutex.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/testing/allocations.h"
#include "base/time.h"

namespace lagoon {
namespace {

#ifdef LAGOON_COUNTS_ALLOCATIONS
TEST(CondVar, HasNoLockOfItsOwnOnTheHeap) {
  const std::uint64_t before = allocations.load();
  CondVar changed;
  EXPECT_EQ(allocations.load(), before);
}
#endif

TEST(CondVar, AWaiterHoldsTheMutexAgainWhenItGoesOn) {
  Mutex mutex;
  CondVar changed;
  bool said = false;
  bool heard = false;
  std::jthread waiter([&] {
    const MutexLock lock(mutex);
    while (!said) changed.Wait(mutex);
    std::jthread([&] { EXPECT_FALSE(mutex.try_lock()); }).join();
    heard = true;
  });
  {
    const MutexLock lock(mutex);
    said = true;
    changed.NotifyOne();
  }
  waiter.join();
  const MutexLock lock(mutex);
  EXPECT_TRUE(heard);
}

TEST(CondVar, ATimedWaitEndsAtItsTimeWithTheMutexHeld) {
  Mutex mutex;
  CondVar changed;
  const TimePoint until = Now() + std::chrono::milliseconds(1);
  const MutexLock lock(mutex);
  while (Now() < until) changed.WaitUntil(mutex, until);
  std::jthread([&] { EXPECT_FALSE(mutex.try_lock()); }).join();
}

}  // namespace
}  // namespace lagoon
