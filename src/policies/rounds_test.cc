#include "policies/rounds.h"

#include <gtest/gtest.h>

#include <deque>

namespace lagoon {
namespace {

// Jobs of a queue each, without a device. Ready until they are finished.
class Rounds : public ::testing::Test {
 protected:
  ScheduledJob& Add(std::uint64_t id) {
    ScheduledJob& job = jobs_.emplace_back();
    job.id = JobId{id};
    job.queue_id = QueueId{static_cast<std::uint32_t>(jobs_.size())};
    index_.AddQueue(job.queue_id);
    policy_.OnArrival(job);
    index_.Update(job, true);
    return job;
  }
  std::optional<JobId> Pick() { return policy_.Pick({TimePoint{}, ReadyView(index_, {})}).job; }
  void Finish(ScheduledJob& job) {
    index_.Update(job, false);
    policy_.OnFinished(job);
  }
  // All kernels are submitted.
  void Submit(ScheduledJob& job) { index_.Update(job, false); }

  std::deque<ScheduledJob> jobs_;
  ReadyIndex index_;
  RoundsPolicy policy_;
};

TEST_F(Rounds, AJobWaitsForTheRoundBeforeIt) {
  ScheduledJob &a = Add(1), &b = Add(2);
  EXPECT_EQ(Pick(), a.id);
  ScheduledJob& c = Add(3);
  Submit(a);
  EXPECT_EQ(Pick(), b.id);
  Submit(b);
  EXPECT_EQ(Pick(), std::nullopt);
  Finish(a);
  EXPECT_EQ(Pick(), std::nullopt);
  Finish(b);
  EXPECT_EQ(Pick(), c.id);
  Finish(c);
}

// Two threads post at once, and the job with the earlier id is admitted second.
TEST_F(Rounds, AJobFromBeforeTheEndOfTheRoundBelongsToIt) {
  ScheduledJob &a = Add(1), &c = Add(3);
  EXPECT_EQ(Pick(), a.id);
  Submit(a);
  ScheduledJob& b = Add(2);
  EXPECT_EQ(Pick(), b.id);
  Submit(b);
  EXPECT_EQ(Pick(), c.id);
  Submit(c);
  ScheduledJob& next = Add(4);
  Finish(a);
  Finish(b);
  EXPECT_EQ(Pick(), std::nullopt);  // c is unfinished
  Finish(c);
  EXPECT_EQ(Pick(), next.id);
  Finish(next);
}

TEST_F(Rounds, AnswersAreHeldWhileAJobOfTheRoundIsLeft) {
  ScheduledJob &a = Add(1), &b = Add(2);
  EXPECT_FALSE(policy_.HoldsAnswers());
  Pick();
  Submit(a);
  EXPECT_TRUE(policy_.HoldsAnswers());
  ScheduledJob& c = Add(3);
  Finish(a);
  EXPECT_TRUE(policy_.HoldsAnswers());
  Finish(b);
  EXPECT_FALSE(policy_.HoldsAnswers()) << "c is of the next round";
  Finish(c);
  PolicyConfig apart;
  apart.together = false;
  RoundsPolicy policy(apart);
  policy.OnArrival(a);
  policy.Pick({TimePoint{}, ReadyView(index_, {})});
  EXPECT_FALSE(policy.HoldsAnswers());
}

}  // namespace
}  // namespace lagoon
