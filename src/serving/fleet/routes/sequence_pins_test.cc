#include "serving/fleet/routes/sequence_pins.h"

#include <gtest/gtest.h>

namespace lagoon {
namespace {

const SequencePins::Place kA{0, 1, "a"}, kB{1, 2, "b"};
constexpr Nanoseconds kIdle{100};
TimePoint At(int ns) { return TimePoint(Nanoseconds(ns)); }

SequenceName Named(std::uint64_t number, const std::string& text = "") {
  return {"m", "", number, text};
}

TEST(SequencePins, ASequenceStaysWhereItBeganUntilItsEndIsAnswered) {
  SequencePins pins;
  EXPECT_FALSE(pins.Continue(Named(7)));
  const auto begun = pins.Begin(Named(7), kB, kIdle, At(0));
  ASSERT_TRUE(begun);
  const auto more = pins.Continue(Named(7));
  ASSERT_TRUE(more);
  EXPECT_EQ(more->place, kB);
  pins.Answered(Named(7), more->beginning, /*last=*/false, At(5));
  EXPECT_TRUE(pins.Continue(Named(7)));
  pins.Answered(Named(7), begun->beginning, /*last=*/true, At(6));
  EXPECT_FALSE(pins.Continue(Named(7)));
  EXPECT_EQ(pins.size(), 0U);
}

TEST(SequencePins, NumbersTextsModelsAndVersionsAreToldApart) {
  SequencePins pins;
  ASSERT_TRUE(pins.Begin(Named(7), kA, kIdle, At(0)));
  EXPECT_FALSE(pins.Continue(Named(8)));
  EXPECT_FALSE(pins.Continue(Named(0, "7")));
  EXPECT_FALSE(pins.Continue({"n", "", 7, ""}));
  EXPECT_FALSE(pins.Continue({"m", "1", 7, ""}));
}

TEST(SequencePins, TheEndOfAnEarlierBeginningDoesNotEndTheNextOne) {
  SequencePins pins;
  const auto first = pins.Begin(Named(7), kA, kIdle, At(0));
  const auto second = pins.Begin(Named(7), kB, kIdle, At(1));
  pins.Answered(Named(7), first->beginning, /*last=*/true, At(2));
  const auto more = pins.Continue(Named(7));
  ASSERT_TRUE(more);
  EXPECT_EQ(more->place, kB);
  EXPECT_EQ(more->beginning, second->beginning);
}

TEST(SequencePins, IdleSequencesAreForgottenAndThoseWithARequestAreNot) {
  SequencePins pins;
  const auto idle = pins.Begin(Named(1), kA, kIdle, At(0));
  pins.Answered(Named(1), idle->beginning, /*last=*/false, At(10));
  ASSERT_TRUE(pins.Begin(Named(2), kA, kIdle, At(0)));
  pins.Forget(At(110));
  EXPECT_EQ(pins.size(), 2U);
  pins.Forget(At(111));
  EXPECT_EQ(pins.size(), 1U);
  EXPECT_TRUE(pins.Continue(Named(2)));
}

TEST(SequencePins, MoreThanTheLimitAreRefused) {
  SequencePins pins(2);
  ASSERT_TRUE(pins.Begin(Named(1), kA, kIdle, At(0)));
  ASSERT_TRUE(pins.Begin(Named(2), kA, kIdle, At(0)));
  const auto third = pins.Begin(Named(3), kA, kIdle, At(0));
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(third.error().message.find("2 sequences"), std::string::npos);
  EXPECT_TRUE(pins.Begin(Named(2), kB, kIdle, At(0))) << "it begins anew in its place";
}

}  // namespace
}  // namespace lagoon
