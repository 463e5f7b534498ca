#include "policies/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

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
  EXPECT_THAT(scheduler.error().message, HasSubstr("reset, reef, reef-mv, lagoon"));
}

// A set of ready jobs under the policy of a named scheduler.
class Ranking : public ::testing::Test {
 protected:
  ~Ranking() override { Clear(); }

  void Use(std::string_view scheduler) {
    Clear();
    scheduler_ = MakeScheduler(scheduler);
    ASSERT_TRUE(scheduler_);
    index_ = std::make_unique<ReadyIndex>(policy().orders());
  }
  ScheduledJob& Add(JobClass job_class, bool started = false, QueueId queue = QueueId{0}) {
    ScheduledJob& job = *jobs_.emplace_back(std::make_unique<ScheduledJob>());
    job.id = JobId{jobs_.size()};
    job.queue_id = queue;
    job.job_class = job_class;
    job.started = started;
    index_->AddQueue(queue);
    policy().OnArrival(job);
    index_->Update(job, true);
    return job;
  }
  void Remove(ScheduledJob& job) { index_->Update(job, false); }
  Policy& policy() { return *scheduler_->policy; }
  Decision Decide(ReadyView::Eligibility eligible = {}) {
    return policy().Pick({TimePoint{}, ReadyView(*index_, eligible)});
  }
  template <typename... Jobs>
  void Reorder(Jobs&... jobs) {
    (index_->Update(jobs, true), ...);
  }
  std::optional<JobId> Pick(ReadyView::Eligibility eligible = {}) { return Decide(eligible).job; }

 private:
  void Clear() {
    for (const auto& job : jobs_) {
      index_->Update(*job, false);
      policy().OnFinished(*job);
    }
    jobs_.clear();
  }

  Result<Scheduler> scheduler_ = MakeScheduler("fifo");
  std::unique_ptr<ReadyIndex> index_;
  std::vector<std::unique_ptr<ScheduledJob>> jobs_;
};

constexpr JobClass kRealTime = JobClass::kRealTime;
constexpr JobClass kBestEffort = JobClass::kBestEffort;
constexpr double kThreshold = PolicyConfig{}.fairness_threshold;

TEST_F(Ranking, RealTimeGoesFirstWhereTheSchedulerSaysSo) {
  for (const std::string_view name :
       {"sequential", "wait", "one-kernel", "reset", "reef", "lagoon"}) {
    Use(name);
    Add(kBestEffort);
    const JobId urgent = Add(kRealTime).id;
    EXPECT_EQ(Pick(), urgent) << name;
  }
}

TEST_F(Ranking, TheDeviceDecidesUnderTheBaselinesOfStreams) {
  for (const std::string_view name :
       {"single-stream", "streams", "stream-priority", "job-streams", "kernel-streams", "fifo"}) {
    Use(name);
    const JobId early = Add(kBestEffort).id;
    Add(kRealTime);
    EXPECT_EQ(Pick(), early) << name;
  }
}

TEST_F(Ranking, NothingIsPickedThatIsNotEligible) {
  Use("reset");
  const JobId background = Add(kBestEffort).id;
  const JobId urgent = Add(kRealTime).id;
  EXPECT_EQ(Pick({.start_new = false}), std::nullopt);
  EXPECT_EQ(Pick({.real_time = false}), background);
  EXPECT_EQ(Pick({.best_effort = false}), urgent);
  EXPECT_EQ(Pick({.real_time = false, .best_effort = false}), std::nullopt);
}

TEST_F(Ranking, AStartedJobGoesOnWhereNoneMayStart) {
  Use("reset");
  const JobId fresh = Add(kRealTime).id;
  const JobId started = Add(kRealTime, /*started=*/true).id;
  EXPECT_EQ(Pick(), fresh);
  EXPECT_EQ(Pick({.start_new = false}), started);
}

TEST_F(Ranking, SjfGoesByTheWholeJobAndSrptByWhatIsLeft) {
  using std::chrono::microseconds;
  for (const std::string_view name : {"sjf", "srpt", "paella", "lagoon"}) {
    Use(name);
    ScheduledJob& whole = Add(kBestEffort);
    ScheduledJob& nearly_done = Add(kBestEffort, /*started=*/true);
    whole.total = whole.remaining = microseconds(50);
    nearly_done.total = microseconds(500);
    nearly_done.remaining = microseconds(5);
    Reorder(whole, nearly_done);
    EXPECT_EQ(Pick(), name == "sjf" ? whole.id : nearly_done.id) << name;
  }
}

TEST_F(Ranking, EdfGoesByDeadlineAndLeastSlackAlsoByWhatIsLeft) {
  using std::chrono::microseconds;
  for (const std::string_view name : {"edf", "least-slack", "lagoon"}) {
    Use(name);
    ScheduledJob& none = Add(kRealTime);
    none.total = microseconds(100);  // under `lagoon` due at 200
    ScheduledJob& soon = Add(kRealTime);
    ScheduledJob& long_one = Add(kRealTime);
    soon.deadline = TimePoint{} + microseconds(100);
    soon.remaining = microseconds(10);
    long_one.deadline = TimePoint{} + microseconds(150);
    long_one.remaining = microseconds(90);
    Reorder(none, soon, long_one);
    EXPECT_EQ(Pick(), name == "least-slack" ? long_one.id : soon.id) << name;
    EXPECT_NE(Pick(), none.id);
  }
}

// Due after twice their own time: a short one passes a long one, but not for ever.
TEST_F(Ranking, LagoonServesShortRealTimeJobsWithoutDeadlinesFirst) {
  using std::chrono::milliseconds;
  Use("lagoon");
  ScheduledJob& long_one = Add(kRealTime);
  long_one.total = milliseconds(10);  // due at 20
  ScheduledJob& short_one = Add(kRealTime);
  short_one.arrival = TimePoint{milliseconds(15)};
  short_one.total = milliseconds(1);  // due at 17
  ScheduledJob& later = Add(kRealTime);
  later.arrival = TimePoint{milliseconds(19)};
  later.total = milliseconds(1);  // due at 21
  ScheduledJob& promised = Add(kRealTime);
  promised.deadline = TimePoint{milliseconds(18)};
  Reorder(long_one, short_one, later, promised);
  for (ScheduledJob* next : {&short_one, &promised, &long_one, &later}) {
    EXPECT_EQ(Pick(), next->id);
    Remove(*next);
  }
}

TEST_F(Ranking, LagoonRanksOnTheDeviceAsItPicks) {
  Use("lagoon");
  const auto rank_of = [this](ScheduledJob& job) {
    const Decision decision = Decide();
    EXPECT_EQ(decision.job, job.id);
    Remove(job);
    return decision.rank;
  };
  ScheduledJob& early = Add(kRealTime);
  early.arrival = TimePoint{} + std::chrono::hours(2);
  ScheduledJob& late = Add(kRealTime);
  late.arrival = TimePoint{} + std::chrono::hours(3);
  ScheduledJob& soon = Add(kRealTime);
  soon.deadline = TimePoint{} + std::chrono::hours(1);
  Reorder(early, late, soon);
  const std::uint64_t urgent = rank_of(soon);
  const std::uint64_t first = rank_of(early);
  EXPECT_LT(urgent, first);
  EXPECT_LT(first, rank_of(late));

  ScheduledJob& long_one = Add(kBestEffort, false, QueueId{0});
  ScheduledJob& short_one = Add(kBestEffort, false, QueueId{1});
  long_one.remaining = std::chrono::milliseconds(2);
  short_one.remaining = std::chrono::milliseconds(1);
  Reorder(long_one, short_one);
  EXPECT_GT(Decide().rank, 0u);
  policy().OnSubmitted(short_one, static_cast<std::uint32_t>(2 * kThreshold) + 2);
  EXPECT_EQ(rank_of(long_one), 0u);  // it is behind its share
  EXPECT_GT(rank_of(short_one), 0u);
}

TEST_F(Ranking, RoundRobinServesOneKernelATurn) {
  Use("rr");
  ScheduledJob& first = Add(kBestEffort);
  ScheduledJob& second = Add(kBestEffort);
  EXPECT_EQ(Decide().ops, 1u);
  EXPECT_EQ(Pick(), first.id);
  first.served = 1;
  Reorder(first);
  EXPECT_EQ(Pick(), second.id);
  second.served = 2;
  Reorder(second);
  EXPECT_EQ(Pick(), first.id);
}

TEST_F(Ranking, FairnessLetsTheClientThatIsFarBehindGoBeforeTheShortestJob) {
  for (const std::string_view name : {"paella", "lagoon"}) {
    Use(name);
    ScheduledJob& short_one = Add(kBestEffort, false, QueueId{0});
    ScheduledJob& long_one = Add(kBestEffort, false, QueueId{1});
    long_one.remaining = std::chrono::milliseconds(1);
    Reorder(long_one);
    // Each kernel of one client adds 1/2 to the deficit of the other.
    const auto behind = static_cast<std::uint32_t>(2 * kThreshold);
    policy().OnSubmitted(short_one, behind);
    EXPECT_EQ(Pick(), short_one.id) << name;
    policy().OnSubmitted(short_one, 1);
    EXPECT_EQ(Pick(), long_one.id) << name;
    EXPECT_EQ(Pick({.best_effort = false}), std::nullopt) << name;
    policy().OnSubmitted(long_one, 3);
    EXPECT_EQ(Pick(), short_one.id) << name;
  }
}

}  // namespace
}  // namespace lagoon
