#include "serving/fleet/placement_judge.h"

#include <gtest/gtest.h>

#include <string>

namespace lagoon {
namespace {

using std::chrono::seconds;

LatencyModel OneMillisecond() {
  return {*Surface::FromFormula({.row_ms = 1, .fixed = 0}), LoadLine(), LoadLine(),
          SlowdownTerms()};
}

class PlacementJudgeTest : public ::testing::Test {
 protected:
  PlacementJudgeTest() {
    for (const char* name : {"a", "b"}) {
      ModelView model;
      model.name = name;
      model.slo = std::chrono::milliseconds(50);
      model.latency = &latency_;
      model.memory_bytes = 60;
      view_.models.push_back(model);
    }
    view_.gpus = {{100, 100}, {100, 100}};
    view_.current = At(0, 1);
  }
  /// Model a on the GPU `a`, model b on `b`.
  static Assignment At(std::size_t a, std::size_t b) {
    return {{{0, a, 10, 1, 1}, {1, b, 10, 1, 1}}, {}};
  }
  PlacementJudge::Verdict Judge(const Assignment& proposed, int second) {
    return judge_.Judge(view_, proposed, TimePoint(seconds(1000 + second)));
  }

  const LatencyModel latency_ = OneMillisecond();
  PlacementView view_;
  PlacementJudge judge_{{.hold_down = seconds(10), .confirmations = 2}};
};

TEST_F(PlacementJudgeTest, APlacementThatADeviceCannotHoldIsRefusedByName) {
  for (int i = 0; i < 5; ++i) {
    const PlacementJudge::Verdict verdict = Judge(At(0, 0), 20 * i);
    EXPECT_FALSE(verdict.apply);
    EXPECT_TRUE(verdict.broken);
    EXPECT_NE(verdict.reason.find("GPU 0"), std::string::npos) << verdict.reason;
    EXPECT_NE(verdict.reason.find("120 bytes of 100"), std::string::npos) << verdict.reason;
  }
}

TEST_F(PlacementJudgeTest, AMoveNeedsPlacementsThatAgree) {
  EXPECT_FALSE(Judge(At(0, 1), 0).apply) << "nothing would change";
  EXPECT_FALSE(Judge(At(1, 0), 1).apply);
  EXPECT_FALSE(Judge(At(0, 1), 2).apply);
  EXPECT_FALSE(Judge(At(1, 0), 3).apply) << "the placer had changed its mind";
  const PlacementJudge::Verdict verdict = Judge(At(1, 0), 4);
  EXPECT_TRUE(verdict.apply) << verdict.reason;
}

TEST_F(PlacementJudgeTest, ASecondMoveWaitsForTheHoldDown) {
  Judge(At(1, 0), 0);
  ASSERT_TRUE(Judge(At(1, 0), 1).apply);
  view_.current = At(1, 0);
  for (int second = 2; second < 11; ++second) {
    EXPECT_FALSE(Judge(At(0, 1), second).apply) << second;
  }
  EXPECT_TRUE(Judge(At(0, 1), 11).apply);
}

TEST_F(PlacementJudgeTest, AModelWithoutReplicaGetsOneAtOnce) {
  view_.current.replicas.pop_back();
  const PlacementJudge::Verdict verdict = Judge(At(0, 1), 0);
  EXPECT_TRUE(verdict.apply);
  EXPECT_NE(verdict.reason.find("'b'"), std::string::npos) << verdict.reason;
}

TEST_F(PlacementJudgeTest, FractionsFollowAtOnceIfTheyChangeEnough) {
  view_.models[0].memory_bytes = 10;
  view_.current = {{{0, 0, 10, 1, 0.5}, {0, 1, 10, 1, 0.5}, {1, 1, 10, 1, 1}}, {}};
  Assignment proposed = view_.current;
  proposed.replicas[0].fraction = 0.52;
  proposed.replicas[1].fraction = 0.48;
  EXPECT_FALSE(Judge(proposed, 0).apply);
  proposed.replicas[0].fraction = 0.6;
  proposed.replicas[1].fraction = 0.4;
  EXPECT_TRUE(Judge(proposed, 1).apply);
}

TEST_F(PlacementJudgeTest, AClockThatJumpsDoesNoHarm) {
  Judge(At(1, 0), 0);
  ASSERT_TRUE(Judge(At(1, 0), 1).apply);
  view_.current = At(1, 0);
  // Back by 500 s: the hold-down starts anew, and ends 10 s later.
  EXPECT_FALSE(Judge(At(0, 1), -500).apply);
  EXPECT_FALSE(Judge(At(0, 1), -499).apply);
  EXPECT_FALSE(Judge(At(0, 1), -491).apply);
  EXPECT_TRUE(Judge(At(0, 1), -490).apply);
  view_.current = At(0, 1);
  // Far ahead: a move still needs placements that agree.
  EXPECT_FALSE(Judge(At(1, 0), 1'000'000).apply);
  EXPECT_TRUE(Judge(At(1, 0), 1'000'001).apply);
}

TEST_F(PlacementJudgeTest, PlacementsOfAnotherPlacerDoNotCount) {
  EXPECT_FALSE(Judge(At(1, 0), 0).apply);
  judge_.Forget();
  EXPECT_FALSE(Judge(At(1, 0), 1).apply);
  EXPECT_TRUE(Judge(At(1, 0), 2).apply);
}

}  // namespace
}  // namespace lagoon
