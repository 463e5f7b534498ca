#include "server/grpc/grpc_conduct.h"

#include <gtest/gtest.h>

#include <chrono>

namespace lagoon {
namespace {

class GrpcConductTest : public testing::Test {
 protected:
  void Pass(std::chrono::milliseconds time) { now_ += time; }

  TimePoint now_ = TimePoint{} + std::chrono::hours(1);
  GrpcConduct conduct_{now_};
};

TEST_F(GrpcConductTest, FastClientsStay) {
  for (int i = 0; i < 200'000; ++i) {
    conduct_.OnUse();  // a call, a message and an answer, which takes two changes of windows
    conduct_.OnUse();
    conduct_.OnUse();
    ASSERT_TRUE(conduct_.OnControl(now_).empty()) << i;
    ASSERT_TRUE(conduct_.OnControl(now_).empty()) << i;
    ASSERT_TRUE(conduct_.OnControl(now_).empty()) << i;
  }
}

TEST_F(GrpcConductTest, ClientsThatGiveUpStay) {
  for (int i = 0; i < 10'000; ++i) {
    Pass(std::chrono::milliseconds(1));  // 2,000 a second, none in time
    ASSERT_TRUE(conduct_.OnFailure(now_).empty()) << i;
    ASSERT_TRUE(conduct_.OnFailure(now_).empty()) << i;
  }
  Pass(std::chrono::seconds(10));
  for (int i = 0; i < 4000; ++i) {  // all calls of a client that ends
    ASSERT_TRUE(conduct_.OnFailure(now_).empty()) << i;
  }
}

TEST_F(GrpcConductTest, ResetsInALoopAreCutWithinASecond) {
  int calls = 0;
  for (; calls < 20'000 && conduct_.OnFailure(now_).empty(); ++calls) {
    if (calls % 20 == 0) Pass(std::chrono::milliseconds(1));  // 20,000 a second
  }
  EXPECT_LT(calls, 5000);
}

TEST_F(GrpcConductTest, FramesOfNoCallAreCutAndAPingPerSecondIsNot) {
  for (int i = 0; i < 10'000; ++i) {
    Pass(std::chrono::milliseconds(10));
    ASSERT_TRUE(conduct_.OnControl(now_).empty()) << i;
  }
  int frames = 0;
  while (frames < 100'000 && conduct_.OnControl(now_).empty()) ++frames;
  EXPECT_LT(frames, 5000);
}

TEST_F(GrpcConductTest, UseGivesNoCreditForLater) {
  for (int i = 0; i < 100'000; ++i) conduct_.OnUse();
  int frames = 0;
  while (frames < 100'000 && conduct_.OnControl(now_).empty()) ++frames;
  EXPECT_LT(frames, 5000);
}

}  // namespace
}  // namespace lagoon
