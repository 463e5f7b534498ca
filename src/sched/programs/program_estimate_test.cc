#include "sched/programs/program_estimate.h"

#include <gtest/gtest.h>

namespace lagoon {
namespace {

using std::chrono::microseconds;
using Kind = ProgramEstimate::Kind;
using Counts = ProgramEstimate::Counts;

const Kind kStep = ProgramEstimate::Of(KernelHandle{7}, 4);
const Kind kPrefill = ProgramEstimate::OfModel(0);
const Kind kDecode = ProgramEstimate::OfModel(1);

Counts Posted(const Kind& kind, int count) {
  Counts counts;
  for (int i = 0; i < count; ++i) counts.Add(kind);
  return counts;
}

TEST(ProgramEstimate, StepsThatAreNotPostedLieAhead) {
  ProgramEstimate estimate;
  estimate.SetTime(kStep, microseconds(100));
  EXPECT_EQ(estimate.Ahead({}), microseconds(0)) << "no job has ended";
  estimate.OnEnded(Posted(kStep, 10));
  EXPECT_EQ(estimate.Ahead({}), microseconds(1000));
  EXPECT_EQ(estimate.Ahead(Posted(kStep, 2)), microseconds(800));
  EXPECT_EQ(estimate.Ahead(Posted(kStep, 9)), microseconds(100));
  EXPECT_EQ(estimate.Ahead(Posted(kStep, 10)), microseconds(0));
}

TEST(ProgramEstimate, BeyondTheMeanNothingLiesAhead) {
  ProgramEstimate estimate;
  estimate.SetTime(kStep, microseconds(100));
  estimate.SetTime(kDecode, microseconds(50));
  Counts counts = Posted(kStep, 10);
  counts.Add(kDecode);
  estimate.OnEnded(counts);
  // Were it negative, it would hide the other kind.
  EXPECT_EQ(estimate.Ahead(Posted(kStep, 30)), microseconds(50));
}

TEST(ProgramEstimate, OneTokenLeftIsLessThanAHundred) {
  ProgramEstimate estimate;
  estimate.SetTime(kPrefill, microseconds(900));
  estimate.SetTime(kDecode, microseconds(40));
  Counts generated = Posted(kDecode, 100);
  generated.Add(kPrefill);
  estimate.OnEnded(generated);
  Counts posted;
  EXPECT_EQ(estimate.Ahead(posted), microseconds(900 + 100 * 40));
  posted.Add(kPrefill);
  EXPECT_EQ(estimate.Ahead(posted), microseconds(100 * 40));
  for (int i = 0; i < 99; ++i) posted.Add(kDecode);
  EXPECT_EQ(estimate.Ahead(posted), microseconds(40));
}

TEST(ProgramEstimate, AJobMovesTheMeanByAnEighth) {
  ProgramEstimate estimate;
  estimate.SetTime(kStep, microseconds(100));
  estimate.OnEnded(Posted(kStep, 8));
  estimate.OnEnded(Posted(kStep, 16));
  EXPECT_EQ(estimate.Ahead({}), microseconds(900));
  estimate.OnEnded({});  // a job without this kind
  EXPECT_EQ(estimate.Ahead({}), Nanoseconds(787'500));
}

TEST(ProgramEstimate, TheSameKernelWithOtherBlocksIsAnotherKind) {
  ProgramEstimate estimate;
  estimate.SetTime(kStep, microseconds(100));
  estimate.OnEnded(Posted(kStep, 1));
  EXPECT_EQ(estimate.Ahead(Posted(ProgramEstimate::Of(KernelHandle{7}, 5), 1)), microseconds(100));
  EXPECT_EQ(estimate.Ahead(Posted(ProgramEstimate::Of(KernelHandle{8}, 4), 1)), microseconds(100));
}

// A program chooses the numbers of blocks, so that a client may.
TEST(ProgramEstimate, AKindBeyondTheLimitIsNotKept) {
  ProgramEstimate estimate;
  Counts all;
  for (std::uint32_t blocks = 1; blocks <= ProgramEstimate::kMostKinds; ++blocks) {
    all.Add(ProgramEstimate::Of(KernelHandle{9}, blocks));
  }
  estimate.OnEnded(all);
  estimate.SetTime(kStep, microseconds(100));
  estimate.OnEnded(Posted(kStep, 80));
  EXPECT_EQ(estimate.Ahead({}), microseconds(0));
}

TEST(ProgramEstimate, KnowsSoManyKindsAndForgetsThoseThatNoJobHas) {
  ProgramEstimate estimate;
  Counts many;
  for (std::uint32_t blocks = 1; blocks <= 2 * ProgramEstimate::kMostKinds; ++blocks) {
    const Kind kind = ProgramEstimate::Of(KernelHandle{1}, blocks);
    estimate.SetTime(kind, microseconds(1));
    many.Add(kind);
  }
  estimate.OnEnded(many);
  EXPECT_EQ(estimate.Ahead({}), microseconds(ProgramEstimate::kMostKinds));
  for (int i = 0; i < 100; ++i) estimate.OnEnded({});
  EXPECT_EQ(estimate.Ahead({}), microseconds(0));
  estimate.SetTime(kStep, microseconds(800));
  estimate.OnEnded(Posted(kStep, 1));
  EXPECT_EQ(estimate.Ahead({}), microseconds(100)) << "there was no room for it";
}

TEST(ProgramEstimate, ALongTimeIsBounded) {
  ProgramEstimate estimate;
  estimate.SetTime(kStep, std::chrono::hours(1'000'000));
  estimate.OnEnded(Posted(kStep, 1'000'000));
  EXPECT_EQ(estimate.Ahead({}), ProgramEstimate::kMost);
}

}  // namespace
}  // namespace lagoon
