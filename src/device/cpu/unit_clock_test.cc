#include "device/cpu/unit_clock.h"

#include <gtest/gtest.h>

#include <thread>

namespace lagoon {
namespace {

using std::chrono::milliseconds;

TEST(BusyClock, SumsWhatLiesBetweenStartAndStop) {
  BusyClock clock;
  const TimePoint begin = Now();
  clock.Start(begin);
  clock.Stop(begin + milliseconds(3));
  EXPECT_EQ(clock.Total(), milliseconds(3));
  clock.Start(begin + milliseconds(10));
  clock.Stop(begin + milliseconds(14));
  EXPECT_EQ(clock.Total(), milliseconds(7));
}

TEST(BusyClock, CountsTheTimeThatItHasBeenRunning) {
  BusyClock clock;
  clock.Start(Now() - milliseconds(50));
  EXPECT_GE(clock.Total(), milliseconds(50));
}

TEST(BusyClock, DoesNotGoBackWhenItsWorkerStopsLate) {
  BusyClock clock;
  const TimePoint begin = Now() - milliseconds(50);
  clock.Start(begin);
  const Nanoseconds running = clock.Total();
  clock.Stop(begin + milliseconds(1));  // as if the core had been taken away for the rest
  EXPECT_EQ(clock.Total(), running);
}

TEST(BusyClock, NeverGoesBackForAnotherThread) {
  BusyClock clock;
  std::jthread worker([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      clock.Start(Now());
      clock.Stop(Now());
    }
  });
  Nanoseconds last{0};
  for (int i = 0; i < 100'000; ++i) {
    const Nanoseconds now = clock.Total();
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(IdleClock, IntegratesTheNumberOfIdleUnitsAndTheTimeThatWorkWasHeld) {
  IdleClock clock;
  const TimePoint begin = Now();
  const auto at = [&](int ms) { return begin + milliseconds(ms); };
  clock.SetIdle(1, at(0));
  clock.SetIdle(2, at(10));
  clock.SetHeld(true, at(20));
  clock.SetIdle(1, at(30));
  clock.SetHeld(false, at(40));
  clock.SetIdle(0, at(50));
  clock.Advance(at(99));
  EXPECT_EQ(clock.idle(), milliseconds(10 + 20 + 20 + 10 + 10));
  EXPECT_EQ(clock.idle_while_held(), milliseconds(20 + 10));
}

}  // namespace
}  // namespace lagoon
