// Admission by deadline: a job that would be late behind what goes before it ends at once.

#include <gtest/gtest.h>

#include "sched/testing/dispatcher_fixture.h"

namespace lagoon::testing {
namespace {

using std::chrono::microseconds;

class ShortestFirst final : public Policy {
  JobOrders orders() const override { return {By::kRemaining, By::kRemaining}; }
  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.RealTimeFirst());
  }
};

class Admission : public DispatcherFixture {
 protected:
  void UseAdmission(std::unique_ptr<Policy> policy,
                    SchedulerConfig::Preemption preemption = SchedulerConfig::Preemption::kNone) {
    UseOnUnits({.preemption = preemption, .max_active_jobs = 1}, 1, std::move(policy));
  }
  void UseOnUnits(SchedulerConfig config, std::uint32_t units,
                  std::unique_ptr<Policy> policy = std::make_unique<ClassFirst>()) {
    config.name = "admits";
    config.depth = 1;
    config.admit_by_deadline = true;
    Use(config, 64, FakeDevice::Time::kVirtual, std::move(policy), units);
  }
  // A job of `us` microseconds on the whole device, in kernels of 10 us.
  QueueId Queue(std::uint32_t us, JobClass job_class = JobClass::kBestEffort,
                QueueOptions options = {}, std::uint32_t blocks = 1) {
    auto loaded = std::const_pointer_cast<LoadedPlan>(ChainPlan(us / 10, blocks));
    for (PlanOp& op : loaded->plan.ops) op.cost.kernel = microseconds(10);
    return AddQueue(job_class, loaded, std::move(options));
  }
  Request& PostWithin(QueueId queue, int us) {
    Request& request = Add();
    EXPECT_TRUE(Post(queue, request, device_->Now() + microseconds(us)));
    return request;
  }
  static bool Late(const Request& request) {
    return request.finished == 1 && request.result.outcome == Outcome::kTooLate;
  }
};

TEST_F(Admission, RefusesAtOnceWhatWouldBeLateBehindTheJobsAhead) {
  UseAdmission(std::make_unique<ClassFirst>());
  const QueueId queue = Queue(50);
  EXPECT_FALSE(Late(PostWithin(queue, 50)));
  EXPECT_FALSE(Late(PostWithin(queue, 100)));
  const Request& late = PostWithin(queue, 149);
  EXPECT_TRUE(Late(late));
  EXPECT_EQ(late.result.expected, microseconds(150));
  EXPECT_FALSE(Late(PostWithin(queue, 150)));  // the refused job is not ahead
  EXPECT_EQ(dispatcher_->Pending(queue), 2u);
  device_->RunAll();
  EXPECT_EQ(late.finished, 1);
}

TEST_F(Admission, TakesEveryJobWithoutADeadline) {
  UseAdmission(std::make_unique<ClassFirst>());
  const QueueId queue = Queue(50);
  for (int i = 0; i < 10; ++i) {
    Request& request = Add();
    ASSERT_TRUE(Post(queue, request));
    EXPECT_FALSE(Late(request));
  }
}

TEST_F(Admission, CountsOnlyWhatThePolicyServesBefore) {
  UseAdmission(std::make_unique<ShortestFirst>());
  const QueueId long_one = Queue(200), short_one = Queue(30);
  PostWithin(long_one, 1000);  // has one kernel of 10 us on the device
  EXPECT_FALSE(Late(PostWithin(short_one, 40)));
  EXPECT_TRUE(Late(PostWithin(short_one, 69)));
  EXPECT_FALSE(Late(PostWithin(short_one, 70)));
}

TEST_F(Admission, RealTimeJobsWaitForBestEffortKernelsUnlessTheyRevokeThem) {
  for (const auto preemption :
       {SchedulerConfig::Preemption::kNone, SchedulerConfig::Preemption::kReset}) {
    UseAdmission(std::make_unique<ClassFirst>(), preemption);
    PostWithin(Queue(100), 1000);
    const QueueId urgent = Queue(20, JobClass::kRealTime);
    EXPECT_EQ(Late(PostWithin(urgent, 29)), preemption == SchedulerConfig::Preemption::kNone);
  }
}

// It leaves at its next check, whatever it has left to do.
TEST_F(Admission, ACancelledJobIsNotAhead) {
  UseAdmission(std::make_unique<ClassFirst>());
  const QueueId queue = Queue(1000);
  Request& cancelled = Add();
  const Result<JobId> id = Post(queue, cancelled);
  ASSERT_TRUE(id);
  ASSERT_TRUE(device_->StartBlock());
  dispatcher_->Cancel(*id);
  ASSERT_EQ(cancelled.finished, 0);  // its input's copy has begun
  EXPECT_FALSE(Late(PostWithin(Queue(50), 50)));
  device_->FinishBlock(true);
}

TEST_F(Admission, TheRequestThatGivesWayToANewerOneIsNotAhead) {
  UseAdmission(std::make_unique<ClassFirst>());
  QueueOptions options;
  options.max_pending = 1;
  options.overflow = Overflow::kNewestWins;
  const QueueId camera = Queue(50, JobClass::kBestEffort, options);
  PostWithin(camera, 1000);
  const Request& old = PostWithin(camera, 1000);
  EXPECT_FALSE(Late(PostWithin(camera, 100)));
  EXPECT_EQ(old.result.outcome, Outcome::kSuperseded);
  const Request& late = PostWithin(camera, 99);
  EXPECT_TRUE(Late(late));
  EXPECT_EQ(late.result.expected, microseconds(100));
}

// The kernels turn out to be shorter than expected, and the expected time of the rest falls too.
TEST_F(Admission, AJobThatOnlyCopiesItsOutputsIsNotAhead) {
  UseAdmission(std::make_unique<ClassFirst>());
  Request& first = PostWithin(Queue(50), 1000);
  const QueueId other = Queue(40);
  while (dispatcher_->Stats().launches < 1 + 5 + 1) ASSERT_TRUE(device_->RunBlock());
  ASSERT_EQ(first.finished, 0);
  while (device_->launches() > 1) ASSERT_TRUE(device_->RunBlock());
  ASSERT_EQ(first.finished, 0);
  EXPECT_FALSE(Late(PostWithin(other, 40)));
}

TEST_F(Admission, TheTimeOfAJobIsThatOnItsShare) {
  UseOnUnits({}, 4);
  QueueOptions options;
  options.units = {1, 1};
  const QueueId queue = Queue(50, JobClass::kBestEffort, options, 4);
  const Request& late = PostWithin(queue, 199);
  EXPECT_TRUE(Late(late));
  EXPECT_EQ(late.result.expected, microseconds(200));
  ASSERT_TRUE(dispatcher_->MoveShare(queue, {0, 2}));
  EXPECT_TRUE(Late(PostWithin(queue, 99)));
  EXPECT_FALSE(Late(PostWithin(queue, 100)));
}

// Whether a job of 50 us is late behind one of 1000 us, on units {2, 2} of 4.
TEST_F(Admission, JobsOnUnitsOfOtherSharesAreNotAhead) {
  using Streams = SchedulerConfig::Streams;
  const auto late = [&](const SchedulerConfig& config, UnitRange units,
                        JobClass before = JobClass::kBestEffort,
                        JobClass after = JobClass::kBestEffort) {
    UseOnUnits(config, 4);
    QueueOptions options;
    options.units = units;
    EXPECT_FALSE(Late(PostWithin(Queue(1000, before, options), 1000)));
    options.units = {2, 2};
    return Late(PostWithin(Queue(50, after, options), 50));
  };
  constexpr JobClass kFirst = JobClass::kRealTime, kLast = JobClass::kBestEffort;
  EXPECT_FALSE(late({}, {0, 2}));
  EXPECT_TRUE(late({}, {0, 3})) << "both may use unit 2";
  EXPECT_TRUE(late({}, {})) << "it may use all units";
  EXPECT_FALSE(late({}, {0, 2}, kFirst, kLast));
  EXPECT_TRUE(late({.preemption = SchedulerConfig::Preemption::kReset}, {0, 2}, kFirst, kLast))
      << "real-time work goes first on the whole device";
  EXPECT_FALSE(late({.preemption = SchedulerConfig::Preemption::kReset}, {0, 2}, kFirst, kFirst));
  EXPECT_TRUE(late({.max_real_time_jobs = 1}, {0, 2}, kFirst, kFirst));
  // Schedulers that run one after another.
  EXPECT_TRUE(late({.max_active_jobs = 1}, {0, 2}));
  EXPECT_TRUE(late({.streams = Streams::kOne}, {0, 2}));
  EXPECT_TRUE(late({.max_kernels = 1}, {0, 2}));
  EXPECT_TRUE(late({.extra_blocks = 8}, {0, 2}));
  EXPECT_TRUE(late({.one_part = true}, {0, 2}));
}

TEST_F(Admission, AJobOfUnknownTimeIsTaken) {
  UseAdmission(std::make_unique<ClassFirst>());
  EXPECT_FALSE(Late(PostWithin(AddQueue(JobClass::kBestEffort, 5, 1), 1)));
}

}  // namespace
}  // namespace lagoon::testing
