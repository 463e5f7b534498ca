#include "server/http/json_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <future>
#include <stdexcept>
#include <vector>

namespace lagoon {
namespace {

// Keeps the lane's thread busy until it is released.
class Plug {
 public:
  explicit Plug(JsonLane& lane) {
    EXPECT_TRUE(lane.Post(TimePoint{}, 0, [this] {
      began_.set_value();
      released_.get_future().wait();
    }));
    began_.get_future().wait();
  }
  void Release() { released_.set_value(); }

 private:
  std::promise<void> began_;
  std::promise<void> released_;
};

TEST(JsonLane, WorksInOrderOfArrivalAndSize) {
  JsonLane lane;
  Plug plug(lane);
  const TimePoint now = Now();
  std::vector<int> order;
  const auto post = [&](TimePoint since, std::size_t bytes, int number) {
    EXPECT_TRUE(lane.Post(since, bytes, [&order, number] { order.push_back(number); }));
  };
  post(now, 64 << 20, 4);  // the largest: after all that come soon
  post(now, 1000, 1);      // the first of two equal ones
  post(now, 1000, 2);
  post(now + std::chrono::seconds(1), 1000, 3);  // small: overtakes the large one
  post(now + std::chrono::minutes(1), 1000, 5);  // too late to overtake
  plug.Release();
  lane.Stop();
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3, 4, 5));
}

TEST(JsonLane, RefusesWhatIsTooMuch) {
  JsonLane lane(2);
  Plug plug(lane);
  int done = 0;
  EXPECT_TRUE(lane.Post(Now(), 1, [&] { ++done; }));
  EXPECT_TRUE(lane.Post(Now(), 1, [&] { ++done; }));
  EXPECT_FALSE(lane.Post(Now(), 1, [&] { ++done; }));
  plug.Release();
  lane.Stop();
  EXPECT_EQ(done, 2);
  EXPECT_FALSE(lane.Post(Now(), 1, [&] { ++done; }));
}

TEST(JsonLane, GoesOnAfterWorkThatThrows) {
  JsonLane lane;
  bool done = false;
  EXPECT_TRUE(lane.Post(Now(), 1, [] { throw std::runtime_error("out of something"); }));
  EXPECT_TRUE(lane.Post(Now(), 1, [&] { done = true; }));
  lane.Stop();
  EXPECT_TRUE(done);
}

TEST(JsonLane, OnlyItsOwnThreadHasLowPriority) {
  const int before = ::getpriority(PRIO_PROCESS, 0);
  JsonLane lane;
  int within = before;
  EXPECT_TRUE(lane.Post(Now(), 1, [&] { within = ::getpriority(PRIO_PROCESS, 0); }));
  lane.Stop();
  EXPECT_GE(within, std::min(before + 1, 19));
  EXPECT_EQ(::getpriority(PRIO_PROCESS, 0), before);
}

}  // namespace
}  // namespace lagoon
