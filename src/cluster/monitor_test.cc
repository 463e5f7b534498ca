#include "cluster/monitor.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"

namespace lagoon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TimePoint At(double second) {
  return TimePoint(milliseconds(static_cast<std::int64_t>(second * 1000)));
}

BatchTimes Batch(std::int64_t rows, int took_ms) {
  return {rows, milliseconds(took_ms), milliseconds(1), milliseconds(took_ms)};
}

TEST(LoadMonitor, KnowsNothingWithoutTraffic) {
  LoadMonitor monitor;
  const LoadReading reading = monitor.Read(At(0));
  EXPECT_FALSE(reading.arrivals_per_s);
  EXPECT_FALSE(reading.batch_ms);
  EXPECT_FALSE(reading.request_p95_ms);
  EXPECT_FALSE(reading.rows_per_s);
  EXPECT_EQ(reading.bottleneck, Bottleneck::kNone);
  EXPECT_EQ(monitor.Read(At(1)).arrivals_per_s, 0);
}

TEST(LoadMonitor, CountsArrivalsByWholeSeconds) {
  LoadMonitor monitor;
  for (int i = 0; i < 35; ++i) monitor.Arrived(2, At(i / 36.0));
  EXPECT_FALSE(monitor.Read(At(0.999)).arrivals_per_s);
  EXPECT_DOUBLE_EQ(*monitor.Read(At(1)).arrivals_per_s, 70);
  for (int i = 0; i < 10; ++i) monitor.Arrived(1, At(1.5));
  EXPECT_DOUBLE_EQ(*monitor.Read(At(2.5)).arrivals_per_s, 70 + 0.3 * (10 - 70));
  EXPECT_NEAR(*monitor.Read(At(4)).arrivals_per_s, 52 * 0.7 * 0.7, 1e-9);
  EXPECT_NEAR(*monitor.Read(At(1e9)).arrivals_per_s, 0, 1e-9);  // a gap of any length
}

TEST(LoadMonitor, CapacityIsRowsByTheTimeOfABatch) {
  LoadMonitor monitor;
  monitor.Ended(Batch(1, 20), At(0));
  LoadReading reading = monitor.Read(At(0));
  EXPECT_DOUBLE_EQ(*reading.batch_ms, 20);
  EXPECT_DOUBLE_EQ(*reading.rows_per_s, 50);  // though only one row was served
  monitor.Ended(Batch(11, 40), At(0.1));
  reading = monitor.Read(At(0.1));
  EXPECT_DOUBLE_EQ(*reading.batch_ms, 26);
  EXPECT_DOUBLE_EQ(*reading.rows_per_s, 4000 / 26.0);
}

TEST(LoadMonitor, AMoveForgetsTheOldSharesTimes) {
  LoadMonitor monitor;
  monitor.Arrived(1, At(0));
  monitor.Ended(Batch(1, 20), At(0));
  monitor.Answered(milliseconds(30), At(0));
  monitor.Moved();
  const LoadReading reading = monitor.Read(At(1));
  EXPECT_FALSE(reading.batch_ms);
  EXPECT_FALSE(reading.rows_per_s);
  EXPECT_FALSE(reading.request_p95_ms);
  EXPECT_EQ(reading.arrivals_per_s, 1);
}

TEST(LoadMonitor, TheLastSecondSaysWhereTheTimeWent) {
  LoadMonitor monitor;
  monitor.Ended(
      {.rows = 1, .took = milliseconds(9), .host = milliseconds(7), .device = milliseconds(2)},
      At(0));
  EXPECT_EQ(monitor.Read(At(0.5)).bottleneck, Bottleneck::kNone);
  EXPECT_EQ(monitor.Read(At(1)).bottleneck, Bottleneck::kHost);
  monitor.Ended({.rows = 1, .host = milliseconds(3), .device = milliseconds(2)}, At(1.2));
  monitor.Ended({.rows = 1, .host = milliseconds(3), .device = milliseconds(9)}, At(1.3));
  EXPECT_EQ(monitor.Read(At(2)).bottleneck, Bottleneck::kDevice);
  EXPECT_EQ(monitor.Read(At(3)).bottleneck, Bottleneck::kNone);
}

TEST(LoadMonitor, FindsTheSlowestTwentiethOfTheRequests) {
  Random random(15);
  for (const int scale_ms : {1, 50, 4000}) {
    LoadMonitor monitor;
    for (int i = 1; i <= 1000; ++i) {
      monitor.Answered(std::chrono::microseconds(static_cast<std::int64_t>(scale_ms) * i), At(0.5));
    }
    EXPECT_NEAR(*monitor.Read(At(1.5)).request_p95_ms / (0.95 * scale_ms), 1, 0.03) << scale_ms;
  }
}

TEST(LoadMonitor, HostileTimesAreBounded) {
  LoadMonitor monitor;
  monitor.Arrived(std::numeric_limits<std::int64_t>::max(), At(5));
  monitor.Arrived(1, At(3));  // a time that falls
  monitor.Ended({.rows = 1, .took = Nanoseconds(-5), .host = Nanoseconds(-5)}, At(5));
  monitor.Answered(Nanoseconds(-1), At(5));
  monitor.Answered(Nanoseconds::max(), At(5));
  const LoadReading reading = monitor.Read(At(6));
  EXPECT_EQ(reading.batch_ms, 0);
  EXPECT_FALSE(reading.rows_per_s);  // of no time
  EXPECT_EQ(reading.bottleneck, Bottleneck::kDevice);
  EXPECT_GT(*reading.request_p95_ms, 250'000);
}

TEST(LoadMonitorDeathTest, RefusesNoRowsAndNoWindow) {
  LoadMonitor monitor;
  EXPECT_DEATH(monitor.Arrived(0, At(0)), "rows >= 1");
  EXPECT_DEATH(monitor.Ended({.rows = 0}, At(0)), "rows >= 1");
  EXPECT_DEATH(LoadMonitor(Nanoseconds(0)), "window");
}

}  // namespace
}  // namespace lagoon
