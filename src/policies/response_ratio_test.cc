#include "policies/response_ratio.h"

#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <map>
#include <random>

#include "policies/arrival_load.h"

namespace lagoon {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

std::int64_t Product(const ScheduledJob& job) {
  return job.unsubmitted.count() * job.total.count();
}

// Unfinished jobs under the policy, without a device. As in the mechanism, jobs that have begun are
// ready, and the first waiting job of each queue that has an instance free.
class Jobs {
 public:
  explicit Jobs(const PolicyConfig& config) : policy_(config), index_(policy_.orders()) {}
  ~Jobs() {
    while (!waiting_.empty()) Finish(*waiting_.front());
  }
  Jobs(const Jobs&) = delete;
  Jobs& operator=(const Jobs&) = delete;

  ScheduledJob& Add(std::uint32_t queue, Nanoseconds total, TimePoint now = TimePoint{},
                    TimePoint deadline = kNoDeadline) {
    ScheduledJob& job = jobs_.emplace_back();
    job.deadline = deadline;
    job.id = JobId{jobs_.size()};
    job.queue_id = QueueId{queue};
    job.arrival = now;
    job.total = job.remaining = job.unsubmitted = total;
    job.part_ops = 2;
    job.has_cut_ops = parts_cost_;
    index_.AddQueue(job.queue_id);
    policy_.OnArrival(job);
    waiting_.push_back(&job);
    Offer();
    return job;
  }
  // Null: the policy waits.
  ScheduledJob* Pick(TimePoint now = TimePoint{}) {
    decision_ = policy_.Pick({now, ReadyView(index_, {})});
    if (!decision_.job) return nullptr;
    ScheduledJob& job = jobs_[Raw(*decision_.job) - 1];
    if (!job.started) index_.Update(job, false);  // as in the mechanism
    job.started = true;
    Offer();
    return &job;
  }
  std::uint32_t ops() const { return decision_.ops; }
  void Run(ScheduledJob& job, Nanoseconds time) {
    job.unsubmitted = job.remaining = std::max(Nanoseconds(0), job.unsubmitted - time);
    index_.Update(job, true);
  }
  void Finish(ScheduledJob& job) {
    index_.Update(job, false);
    policy_.OnFinished(job);
    waiting_.remove(&job);
    Offer();
  }
  // All its kernels are complete; its outputs are being copied.
  void Copy(ScheduledJob& job) {
    copying_ = &job;
    Offer();
  }
  ResponseRatioPolicy& policy() { return policy_; }
  void SetInstances(int instances) { instances_ = instances; }
  void SetPartsCost(bool cost) { parts_cost_ = cost; }

 private:
  bool parts_cost_ = true;
  void Offer() {
    std::map<QueueId, int> unfinished;
    for (ScheduledJob* job : waiting_) {
      const bool has_instance = ++unfinished[job->queue_id] <= instances_;
      index_.Update(*job, (job->started || has_instance) && job != copying_);
    }
  }

  ResponseRatioPolicy policy_;
  ReadyIndex index_;
  std::deque<ScheduledJob> jobs_;     // by id
  std::list<ScheduledJob*> waiting_;  // unfinished, in order of posting
  const ScheduledJob* copying_ = nullptr;
  int instances_ = 1;  // of each queue
  Decision decision_;
};

// SPLIT's Algorithm 1 with its errors corrected, as text: a new job moves forward while the mean
// response ratio of it and the job before it falls.
void Insert(std::list<const ScheduledJob*>& order, const ScheduledJob& job) {
  auto position = order.end();
  while (position != order.begin()) {
    const ScheduledJob& before = **std::prev(position);
    if (before.queue_id == job.queue_id || Product(before) <= Product(job)) break;
    --position;
  }
  order.insert(position, &job);
}

// The mean response ratio of two jobs that run one after the other, less what both orders share.
double PairRatio(const ScheduledJob& first, const ScheduledJob& second) {
  const auto us = [](Nanoseconds time) { return static_cast<double>(time.count()) / 1e3; };
  return us(first.unsubmitted) / us(first.total) +
         us(first.unsubmitted + second.unsubmitted) / us(second.total);
}

// 10,000 lists of jobs, some of which have begun: the order of service is that of the algorithm,
// and no swap of two neighbours of different queues lowers their mean response ratio.
TEST(ResponseRatio, ServesInTheOrderOfTheGreedyInsertion) {
  std::mt19937 random(1);
  for (int list = 0; list < 10'000; ++list) {
    Jobs jobs({});
    std::vector<Nanoseconds> totals;
    const auto queues = static_cast<std::uint32_t>(1 + random() % 5);
    for (std::uint32_t i = 0; i < queues; ++i)
      totals.push_back(microseconds(64 * (1 + random() % 50)));
    std::list<const ScheduledJob*> expected;
    for (std::uint32_t i = 0, count = 1 + random() % 8; i < count; ++i) {
      const std::uint32_t queue = random() % queues;
      ScheduledJob& job = jobs.Add(queue, totals[queue]);
      Insert(expected, job);
      if (random() % 3 != 0) continue;
      ScheduledJob* running = jobs.Pick();
      ASSERT_EQ(running, expected.front());
      jobs.Run(*running, running->total / 4);  // one part
      if (running->unsubmitted > Nanoseconds(0)) continue;
      jobs.Finish(*running);
      expected.pop_front();
    }
    for (auto job = expected.begin(); job != expected.end() && std::next(job) != expected.end();
         ++job) {
      const ScheduledJob &a = **job, &b = **std::next(job);
      if (a.queue_id == b.queue_id) continue;
      EXPECT_LE(PairRatio(a, b), PairRatio(b, a) + 1e-9);
    }
    while (!expected.empty()) {
      ScheduledJob* next = jobs.Pick();
      ASSERT_EQ(next, expected.front()) << "list " << list;
      jobs.Finish(*next);
      expected.pop_front();
    }
  }
}

// 2 x 4 is less than 2 x 20; without a deadline a job is judged by its own time, 3 x 3.
TEST(ResponseRatio, AJobWithADeadlineIsJudgedByIt) {
  Jobs jobs({});
  const auto at = [](int ms) { return TimePoint{milliseconds(ms)}; };
  ScheduledJob& loose = jobs.Add(0, milliseconds(2), TimePoint{}, at(20));
  ScheduledJob& tight = jobs.Add(1, milliseconds(2), TimePoint{}, at(4));
  ScheduledJob& free = jobs.Add(2, milliseconds(3));
  ScheduledJob& late = jobs.Add(3, milliseconds(2), at(5), at(4));
  ScheduledJob& later = jobs.Add(4, milliseconds(9), at(9), at(4));
  for (ScheduledJob* expected : {&late, &later, &tight, &free, &loose}) {
    ScheduledJob* next = jobs.Pick();
    ASSERT_EQ(next, expected);
    jobs.Finish(*next);
  }
}

TEST(ResponseRatio, PrecedesAsItServes) {
  Jobs jobs({});
  const ScheduledJob& long_one = jobs.Add(0, milliseconds(100));
  const ScheduledJob& same_queue = jobs.Add(0, milliseconds(1));
  const ScheduledJob& other_queue = jobs.Add(1, milliseconds(1));
  EXPECT_TRUE(jobs.policy().Precedes(long_one, same_queue));
  EXPECT_FALSE(jobs.policy().Precedes(long_one, other_queue));
  EXPECT_TRUE(jobs.policy().Precedes(same_queue, other_queue));  // a tie
}

TEST(ResponseRatio, SubmitsOnePartUnlessItNeverCuts) {
  Jobs cut({});
  cut.Add(0, milliseconds(1));
  cut.Pick();
  EXPECT_EQ(cut.ops(), 2u);
  Jobs whole({.whole_jobs = true});
  whole.Add(0, milliseconds(1));
  whole.Pick();
  EXPECT_EQ(whole.ops(), ~0u);
}

// Without a limit the long job waits until no short job is left; with one it waits for so many.
TEST(ResponseRatio, PatienceLimitsHowManyLaterJobsPass) {
  for (const std::uint32_t patience : {0u, 1u, 3u}) {
    SCOPED_TRACE(patience);
    PolicyConfig config;
    config.patience = patience;
    Jobs jobs(config);
    const ScheduledJob& long_one = jobs.Add(0, milliseconds(100));
    int passed = 0;
    for (int i = 0; i < 20; ++i) {
      jobs.Add(1, milliseconds(1));
      ScheduledJob* next = jobs.Pick();
      if (next == &long_one) break;
      ++passed;
      jobs.Finish(*next);
    }
    EXPECT_EQ(passed, patience == 0 ? 20 : static_cast<int>(patience));
  }
}

// A job that may not be passed again goes on until it ends.
TEST(ResponseRatio, PatienceHoldsBetweenParts) {
  PolicyConfig config;
  config.patience = 2;
  Jobs jobs(config);
  ScheduledJob& long_one = jobs.Add(0, milliseconds(100));
  ASSERT_EQ(jobs.Pick(), &long_one);
  jobs.Run(long_one, milliseconds(20));
  for (int i = 0; i < 2; ++i) {
    jobs.Add(1, milliseconds(1));
    ScheduledJob* next = jobs.Pick();
    ASSERT_NE(next, &long_one);
    jobs.Finish(*next);
  }
  for (int part = 0; part < 4; ++part) {
    jobs.Add(1, milliseconds(1));
    ASSERT_EQ(jobs.Pick(), &long_one);
    jobs.Run(long_one, milliseconds(20));
  }
}

// With two instances a shorter job of the same queue could overtake.
TEST(ResponseRatio, JobsOfAQueueStayInOrderOfArrival) {
  Jobs jobs({});
  jobs.SetInstances(2);
  ScheduledJob& first = jobs.Add(0, milliseconds(100));
  ASSERT_EQ(jobs.Pick(), &first);
  jobs.Run(first, milliseconds(20));
  ScheduledJob& second = jobs.Add(0, milliseconds(1));
  ScheduledJob& other = jobs.Add(1, milliseconds(50));
  ASSERT_EQ(jobs.Pick(), &other);
  jobs.Finish(other);
  ASSERT_EQ(jobs.Pick(), &first);
  jobs.Finish(first);
  ASSERT_EQ(jobs.Pick(), &second);
}

// The end of the job before it does not give others more turns.
TEST(ResponseRatio, PatienceIsCountedForEachJob) {
  PolicyConfig config;
  config.patience = 2;
  Jobs jobs(config);
  jobs.SetInstances(2);
  ScheduledJob& first = jobs.Add(0, milliseconds(100));
  ASSERT_EQ(jobs.Pick(), &first);
  const ScheduledJob& second = jobs.Add(0, milliseconds(100));
  jobs.Run(first, milliseconds(100));
  jobs.Copy(first);
  for (int i = 0; i < 2; ++i) {
    jobs.Add(1, milliseconds(1));
    ScheduledJob* next = jobs.Pick();
    ASSERT_NE(next, &second);
    jobs.Finish(*next);
  }
  jobs.Finish(first);
  jobs.Add(1, milliseconds(1));
  EXPECT_EQ(jobs.Pick(), &second);
}

TEST(ResponseRatio, PatienceBeginsAnewForTheNextJobOfTheQueue) {
  PolicyConfig config;
  config.patience = 2;
  Jobs jobs(config);
  ScheduledJob& cancelled = jobs.Add(0, milliseconds(100));
  const ScheduledJob& second = jobs.Add(0, milliseconds(100));
  const auto passed = [&] {
    for (int count = 0;; ++count) {
      jobs.Add(1, milliseconds(1));
      ScheduledJob* next = jobs.Pick();
      if (next == &second || count == 10) return count;
      jobs.Finish(*next);
      if (count == 0) jobs.Finish(cancelled);
    }
  };
  EXPECT_EQ(passed(), 3);  // one while the cancelled job was there
}

TEST(ResponseRatio, RunsWholeWhileArrivalsAreDense) {
  PolicyConfig config;
  config.elastic = true;
  config.dense = 0.5;
  Jobs jobs(config);
  const TimePoint begin{std::chrono::hours(1)};
  const auto ops_at = [&](TimePoint now) {
    ScheduledJob* job = jobs.Pick(now);
    const std::uint32_t ops = jobs.ops();
    jobs.Finish(*job);
    return ops;
  };
  jobs.Add(0, milliseconds(450), begin);
  EXPECT_EQ(ops_at(begin), 2u);
  jobs.Add(0, milliseconds(100), begin + milliseconds(500));
  EXPECT_EQ(ops_at(begin + milliseconds(500)), ~0u);
  // The first arrival is more than a second ago.
  jobs.Add(0, milliseconds(10), begin + milliseconds(1200));
  EXPECT_EQ(ops_at(begin + milliseconds(1200)), 2u);
}

TEST(ResponseRatio, RunsWholeWhileNearlyAllJobsAreOfItsQueue) {
  PolicyConfig config;
  config.elastic = true;
  Jobs jobs(config);
  for (int i = 0; i < 4; ++i) jobs.Add(0, microseconds(100));
  jobs.Pick();
  EXPECT_EQ(jobs.ops(), 2u);  // four jobs are too few
  for (int i = 0; i < 4; ++i) jobs.Add(0, microseconds(100));
  jobs.Add(1, milliseconds(100));
  jobs.Pick();
  EXPECT_EQ(jobs.ops(), ~0u);  // eight of nine
  jobs.Add(1, milliseconds(100));
  jobs.Pick();
  EXPECT_EQ(jobs.ops(), 2u);  // eight of ten
}

// Where parts cost nothing, running whole only gives up preemption.
TEST(ResponseRatio, IsNotElasticWithoutOpsOfCuts) {
  PolicyConfig config;
  config.elastic = true;
  config.dense = 0.5;
  Jobs jobs(config);
  jobs.SetPartsCost(false);
  for (int i = 0; i < 8; ++i) jobs.Add(0, milliseconds(900));
  jobs.Pick();
  EXPECT_EQ(jobs.ops(), 2u);
}

TEST(ArrivalLoad, SumsTheLastSecond) {
  ArrivalLoad load;
  const TimePoint begin{std::chrono::hours(5)};
  load.Add(begin, milliseconds(300));
  load.Add(begin + milliseconds(600), milliseconds(200));
  EXPECT_DOUBLE_EQ(load.At(begin + milliseconds(900)), 0.5);
  EXPECT_DOUBLE_EQ(load.At(begin + milliseconds(1000)), 0.2);
  EXPECT_DOUBLE_EQ(load.At(begin + milliseconds(1700)), 0);
  load.Add(begin, milliseconds(100));  // late news counts now
  EXPECT_DOUBLE_EQ(load.At(begin + milliseconds(2000)), 0.1);
}

}  // namespace
}  // namespace lagoon
