#include "serving/fleet/routes/suspects.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace lagoon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr RequestDigest kDeadly{1, 2};
constexpr RequestDigest kOther{3, 4};
constexpr TimePoint kStart{seconds(1000)};

TEST(Suspects, ALostRequestIsSentAgainOnce) {
  Suspects suspects;
  EXPECT_TRUE(suspects.empty());
  EXPECT_TRUE(suspects.Lost(kDeadly, "a", kStart));
  EXPECT_FALSE(suspects.empty());
  EXPECT_FALSE(suspects.Lost(kDeadly, "b", kStart + milliseconds(1)));
}

TEST(Suspects, ARequestThatHasEndedTwoMembersIsTriedOnceInAWhile) {
  Suspects suspects;
  suspects.Lost(kDeadly, "a", kStart);
  EXPECT_TRUE(suspects.MaySend(kDeadly, kStart)) << "one loss says little";
  suspects.Lost(kDeadly, "b", kStart);
  EXPECT_FALSE(suspects.MaySend(kDeadly, kStart + seconds(9)));
  EXPECT_TRUE(suspects.MaySend(kOther, kStart + seconds(9)));
  EXPECT_TRUE(suspects.MaySend(kDeadly, kStart + Suspects::kPause));
  EXPECT_FALSE(suspects.MaySend(kDeadly, kStart + Suspects::kPause)) << "one at a time";
  suspects.Lost(kDeadly, "c", kStart + seconds(11));
  EXPECT_FALSE(suspects.MaySend(kDeadly, kStart + seconds(20)));
}

TEST(Suspects, AnAnswerClearsARequest) {
  Suspects suspects;
  suspects.Lost(kDeadly, "a", kStart);
  suspects.Lost(kDeadly, "b", kStart);
  suspects.Answered(kDeadly);
  EXPECT_TRUE(suspects.empty());
  EXPECT_TRUE(suspects.MaySend(kDeadly, kStart));
  // A node is killed every 20 s, and each time a request like this one is lost with it and answered
  // by the other: that goes on for ever.
  for (int kill = 0; kill < 10; ++kill) {
    EXPECT_TRUE(suspects.Lost(kDeadly, kill % 2 == 0 ? "a" : "b", kStart + 20 * kill * seconds(1)));
    suspects.Answered(kDeadly);
  }
}

TEST(Suspects, AllRequestsOfALostMemberAreOneLoss) {
  Suspects suspects;
  for (int request = 0; request < 100; ++request) {
    EXPECT_TRUE(suspects.Lost(kDeadly, "a", kStart + request * milliseconds(1)));
  }
  EXPECT_FALSE(suspects.Lost(kDeadly, "a", kStart + seconds(2)))
      << "the member came back meanwhile";
}

TEST(Suspects, WhileOneIsKnownToEndMembersNoneIsSentAgain) {
  Suspects suspects;
  suspects.Lost(kDeadly, "a", kStart);
  suspects.Lost(kDeadly, "b", kStart);
  EXPECT_FALSE(suspects.Lost(kOther, "c", kStart + seconds(5)));
  EXPECT_TRUE(suspects.MaySend(kOther, kStart + seconds(5)));
  EXPECT_TRUE(suspects.Lost({5, 6}, "c", kStart + Suspects::kRemember)) << "forgotten by now";
}

TEST(Suspects, ThereAreNotManyAndTheyAreForgotten) {
  Suspects suspects;
  for (std::uint64_t i = 0; i < Suspects::kMost; ++i) {
    EXPECT_TRUE(suspects.Lost({i, 0}, "a", kStart));
  }
  EXPECT_FALSE(suspects.Lost(kDeadly, "a", kStart)) << "not noted, so not sent again";
  EXPECT_TRUE(suspects.Lost({0, 0}, "a", kStart)) << "noted before";
  EXPECT_TRUE(suspects.MaySend(kDeadly, kStart + Suspects::kRemember));
  EXPECT_TRUE(suspects.empty());
}

TEST(DigestOf, CountsModelVersionAndInputsOnly) {
  constexpr float kData[] = {1, 2, 3, 4};
  InferRequest request;
  request.model = "m";
  request.inputs = {{"x", DataType::kFloat32, {1, 4}, std::as_bytes(std::span(kData))}};
  const RequestDigest digest = DigestOf(request);
  InferRequest same = request;
  same.id = "another";
  same.priority = 2;
  EXPECT_EQ(DigestOf(same), digest);
  InferRequest other = request;
  other.inputs[0].dims = {4, 1};
  EXPECT_NE(DigestOf(other), digest);
  other = request;
  other.version = "2";
  EXPECT_NE(DigestOf(other), digest);
  constexpr float kOtherData[] = {1, 2, 3, 5};
  other = request;
  other.inputs[0].data = std::as_bytes(std::span(kOtherData));
  EXPECT_NE(DigestOf(other), digest);
}

}  // namespace
}  // namespace lagoon
