#include "policies/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lagoon {
namespace {

using ::testing::HasSubstr;

TEST(Registry, MakesEveryNamedScheduler) {
  for (const std::string_view name : SchedulerNames()) {
    const Result<Scheduler> scheduler = MakeScheduler(name);
    ASSERT_TRUE(scheduler) << name;
    EXPECT_EQ(scheduler->config.name, name);
    EXPECT_NE(scheduler->policy, nullptr);
  }
}

TEST(Registry, AnUnknownNameListsTheKnownOnes) {
  const Result<Scheduler> scheduler = MakeScheduler("resett");
  ASSERT_FALSE(scheduler);
  EXPECT_EQ(scheduler.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(scheduler.error().message, HasSubstr("'resett'"));
  EXPECT_THAT(scheduler.error().message, HasSubstr("sequential, streams, wait, reset"));
}

// A best-effort job that arrived first, and a real-time one.
class Ranking : public ::testing::Test {
 protected:
  Ranking() {
    early_.id = JobId{1};
    urgent_.id = JobId{2};
    urgent_.job_class = JobClass::kRealTime;
    index_.Update(early_, true);
    index_.Update(urgent_, true);
  }
  ~Ranking() override {
    index_.Update(early_, false);
    index_.Update(urgent_, false);
  }
  std::optional<JobId> Pick(std::string_view scheduler, bool best_effort = true,
                            bool start_new = true) {
    return MakeScheduler(scheduler)
        ->policy->Pick({TimePoint{}, ReadyView(index_, best_effort, start_new)})
        .job;
  }

  ReadyIndex index_;
  ScheduledJob early_, urgent_;
};

TEST_F(Ranking, RealTimeGoesFirstWhereTheSchedulerSaysSo) {
  for (const std::string_view name : {"sequential", "wait", "reset"}) {
    EXPECT_EQ(Pick(name), urgent_.id) << name;
  }
}

TEST_F(Ranking, StreamsKeepTheOrderOfArrival) { EXPECT_EQ(Pick("streams"), early_.id); }

TEST_F(Ranking, NothingIsPickedThatIsNotEligible) {
  EXPECT_EQ(Pick("reset", true, false), std::nullopt);
  index_.Update(urgent_, false);
  EXPECT_EQ(Pick("reset", false), std::nullopt);
  EXPECT_EQ(Pick("reset", true), early_.id);
}

TEST_F(Ranking, AStartedJobGoesOnBeforeALaterOneStarts) {
  ScheduledJob started;
  started.id = JobId{3};
  started.job_class = JobClass::kRealTime;
  started.started = true;
  index_.Update(started, true);
  EXPECT_EQ(Pick("reset"), urgent_.id);
  EXPECT_EQ(Pick("reset", true, false), started.id);
  index_.Update(started, false);
}

}  // namespace
}  // namespace lagoon
