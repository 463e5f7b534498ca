#include "cluster/placement/placement_judge.h"

#include <gtest/gtest.h>

#include <string>

namespace lagoon {
namespace {

using Judgement = PlacementJudge::Judgement;
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
    EXPECT_EQ(verdict.judgement, Judgement::kBroken);
    EXPECT_NE(verdict.reason.find("GPU 0"), std::string::npos) << verdict.reason;
    EXPECT_NE(verdict.reason.find("120 bytes of 100"), std::string::npos) << verdict.reason;
  }
}

TEST_F(PlacementJudgeTest, AMoveNeedsPlacementsThatAgree) {
  EXPECT_EQ(Judge(At(0, 1), 0).judgement, Judgement::kKeep);
  EXPECT_NE(Judge(At(1, 0), 1).judgement, Judgement::kApply);
  EXPECT_NE(Judge(At(0, 1), 2).judgement, Judgement::kApply);
  EXPECT_NE(Judge(At(1, 0), 3).judgement, Judgement::kApply) << "the placer had changed its mind";
  const PlacementJudge::Verdict verdict = Judge(At(1, 0), 4);
  EXPECT_EQ(verdict.judgement, Judgement::kApply) << verdict.reason;
}

TEST_F(PlacementJudgeTest, AReasonNamesTheModelAndTheGpu) {
  view_.gpus[0].name = "here";
  EXPECT_EQ(Judge(At(1, 0), 0).reason,
            "model 'a' goes to GPU 1 (one of 4 changes): 1 of 2 placements agree on these "
            "replicas");
  view_.models[1].memory_bytes = 10;
  view_.current = {{{0, 0, 10, 1, 1}, {1, 0, 10, 1, 0.5}, {1, 1, 10, 1, 0.5}}, {}};
  EXPECT_EQ(Judge({{{0, 0, 10, 1, 1}, {1, 1, 10, 1, 1}}, {}}, 1).reason,
            "model 'b' leaves 'here': 1 of 2 placements agree on these replicas");
  Assignment split = view_.current;
  split.replicas[1].fraction = 0.6;
  split.replicas[2].fraction = 0.4;
  EXPECT_EQ(Judge(split, 2).reason,
            "arrivals are split anew: the fraction of model 'b' on 'here' changes by 0.10");
  view_.models[1].memory_bytes = 60;
  EXPECT_EQ(Judge(At(0, 0), 3).reason,
            "the placement is refused: 'here': the replicas need 120 bytes of 100");
}

TEST_F(PlacementJudgeTest, ASecondMoveWaitsForTheHoldDown) {
  Judge(At(1, 0), 0);
  ASSERT_EQ(Judge(At(1, 0), 1).judgement, Judgement::kApply);
  view_.current = At(1, 0);
  for (int second = 2; second < 11; ++second) {
    EXPECT_NE(Judge(At(0, 1), second).judgement, Judgement::kApply) << second;
  }
  EXPECT_EQ(Judge(At(0, 1), 11).judgement, Judgement::kApply);
}

TEST_F(PlacementJudgeTest, AModelWithoutReplicaGetsOneAtOnce) {
  view_.current.replicas.pop_back();
  const PlacementJudge::Verdict verdict = Judge(At(0, 1), 0);
  EXPECT_EQ(verdict.judgement, Judgement::kApply);
  EXPECT_NE(verdict.reason.find("'b'"), std::string::npos) << verdict.reason;
}

TEST_F(PlacementJudgeTest, FractionsFollowAtOnceIfTheyChangeEnough) {
  view_.models[0].memory_bytes = 10;
  view_.current = {{{0, 0, 10, 1, 0.5}, {0, 1, 10, 1, 0.5}, {1, 1, 10, 1, 1}}, {}};
  Assignment proposed = view_.current;
  proposed.replicas[0].fraction = 0.52;
  proposed.replicas[1].fraction = 0.48;
  EXPECT_NE(Judge(proposed, 0).judgement, Judgement::kApply);
  proposed.replicas[0].fraction = 0.6;
  proposed.replicas[1].fraction = 0.4;
  EXPECT_EQ(Judge(proposed, 1).judgement, Judgement::kApply);
}

TEST_F(PlacementJudgeTest, AClockThatJumpsDoesNoHarm) {
  Judge(At(1, 0), 0);
  ASSERT_EQ(Judge(At(1, 0), 1).judgement, Judgement::kApply);
  view_.current = At(1, 0);
  // Back by 500 s: the hold-down starts anew, and ends 10 s later.
  EXPECT_NE(Judge(At(0, 1), -500).judgement, Judgement::kApply);
  EXPECT_NE(Judge(At(0, 1), -499).judgement, Judgement::kApply);
  EXPECT_NE(Judge(At(0, 1), -491).judgement, Judgement::kApply);
  EXPECT_EQ(Judge(At(0, 1), -490).judgement, Judgement::kApply);
  view_.current = At(0, 1);
  // Far ahead: a move still needs placements that agree.
  EXPECT_NE(Judge(At(1, 0), 1'000'000).judgement, Judgement::kApply);
  EXPECT_EQ(Judge(At(1, 0), 1'000'001).judgement, Judgement::kApply);
}

// Between two decisions the first GPU is lost, so that the others move up in the view.
TEST_F(PlacementJudgeTest, PlacementsAgreeByNamesAndNotByPlacesInTheView) {
  view_.models.pop_back();
  view_.gpus = {{100, 100, "x"}, {100, 100, "y"}, {100, 100, "z"}};
  const auto to = [](std::size_t gpu) { return Assignment{{{0, gpu, 10, 1, 1}}, {}}; };
  view_.current = to(2);
  EXPECT_EQ(Judge(to(0), 0).judgement, Judgement::kWait);
  view_.gpus.erase(view_.gpus.begin());
  view_.current = to(1);
  EXPECT_EQ(Judge(to(0), 1).judgement, Judgement::kWait)
      << "that was a move to x, this is one to y";
  view_.gpus.insert(view_.gpus.begin(), {100, 100, "x"});
  view_.current = to(2);
  EXPECT_EQ(Judge(to(1), 2).judgement, Judgement::kApply) << "to y again";
}

TEST_F(PlacementJudgeTest, PlacementsOfAnotherPlacerDoNotCount) {
  EXPECT_NE(Judge(At(1, 0), 0).judgement, Judgement::kApply);
  judge_.Forget();
  EXPECT_NE(Judge(At(1, 0), 1).judgement, Judgement::kApply);
  EXPECT_EQ(Judge(At(1, 0), 2).judgement, Judgement::kApply);
}

}  // namespace
}  // namespace lagoon
