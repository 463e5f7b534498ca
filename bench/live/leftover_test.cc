#include "bench/live/leftover.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lagoon::bench {
namespace {

// A server that takes 10 ms for a request and gets one every 20 ms. The host stops the server for a
// while.
struct Window {
  std::vector<double> arrivals, latencies;
  double span = 0;
  double service = 0;  // busy time

  explicit Window(double stop_ms) {
    double free_at = 0;
    for (int i = 0; i < 50; ++i) {
      const double arrival = 20.0 * i;
      const double begin = std::max(arrival, free_at);
      free_at = begin + 10 + (i == 5 ? stop_ms : 0);
      service += free_at - begin;
      arrivals.push_back(arrival);
      latencies.push_back(free_at - arrival);
    }
    span = 20.0 * 50;
  }
  double MeanOverDistance() const {
    double sum = 0;
    for (const double latency : latencies) sum += latency;
    return sum / span;
  }
};

TEST(BusyFraction, IsThePartOfTheTimeWithARequestUnderWay) {
  const Window window(0);
  EXPECT_DOUBLE_EQ(BusyFraction(window.arrivals, window.latencies, window.span), 0.5);
}

TEST(BusyFraction, CountsRequestsThatQueueOnce) {
  const Window window(200);
  EXPECT_GT(window.MeanOverDistance(), 1.5);  // counts the waiting of many requests at once
  EXPECT_NEAR(BusyFraction(window.arrivals, window.latencies, window.span),
              window.service / window.span, 1e-9);
}

TEST(BusyFraction, CountsNothingBeyondTheWindow) {
  EXPECT_DOUBLE_EQ(BusyFraction(std::vector<double>{0, 90}, std::vector<double>{10, 1000}, 100),
                   0.2);
  const double never = std::numeric_limits<double>::infinity();
  EXPECT_DOUBLE_EQ(BusyFraction(std::vector<double>{50}, std::vector<double>{never}, 100), 0.5);
}

// Real-time requests of one side may wait in a queue, while those of the other side do not. Both
// sides must get the same share.
// An earlier version took mean latency over the mean distance of arrivals as the busy part. On a
// busy host it gave ONNX Runtime shares of 7 to 11, because its requests queue sooner.
TEST(LeftoverShare, IsTheSameForASideWhoseRequestsQueue) {
  for (const double stop_ms : {0.0, 100.0, 200.0}) {
    const Window window(stop_ms);
    const double busy = BusyFraction(window.arrivals, window.latencies, window.span);
    const double contended_per_s = 100 * (1 - window.service / window.span);
    EXPECT_NEAR(LeftoverShare(100, contended_per_s, busy), 1, 1e-9) << stop_ms;
  }
}

TEST(LeftoverShare, SaysNothingWhereNothingIsLeft) {
  EXPECT_TRUE(std::isnan(LeftoverShare(100, 10, 0.95)));
  EXPECT_TRUE(std::isnan(LeftoverShare(100, 10, std::nan(""))));
  EXPECT_TRUE(std::isnan(LeftoverShare(0, 0, 0.5)));
}

}  // namespace
}  // namespace lagoon::bench
