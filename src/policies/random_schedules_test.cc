// Random arrivals, revocations, aborts, cancellations and deadlines under every named scheduler,
// and under some with parameters: nothing is lost, every kept block counts once, and the same seed
// gives the same schedule.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>

#include "policies/registry.h"
#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using testing::FakeDevice;
using testing::Request;

class RandomSchedules : public testing::DispatcherFixture,
                        public ::testing::WithParamInterface<std::string_view> {
 protected:
  struct Plan {
    JobClass job_class;
    std::uint32_t ops, blocks;
  };
  static constexpr Plan kPlans[] = {{JobClass::kBestEffort, 5, 3},
                                    {JobClass::kBestEffort, 3, 66},
                                    {JobClass::kRealTime, 4, 1},
                                    {JobClass::kRealTime, 3, 2}};
  // A job with a plan of its own, which was added to the queue for it: another shape of the model.
  struct Posted {
    std::unique_ptr<QueuePlan> plan;  // null: the queue's first plan
    std::uint32_t blocks = 0;         // of all ops
  };

  // With costs, so that best-effort blocks fit beside real-time kernels.
  static std::shared_ptr<LoadedPlan> ChainOf(const Plan& plan, std::uint32_t ops) {
    auto loaded = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(ops, plan.blocks));
    const bool real_time = plan.job_class == JobClass::kRealTime;
    const Nanoseconds block = std::chrono::microseconds(real_time ? 100 : 5);
    for (PlanOp& op : loaded->plan.ops) op.cost = {block * plan.blocks, block};
    return loaded;
  }

  TimePoint RandomDeadline(std::mt19937& random) {
    if (random() % 3 != 0) return kNoDeadline;
    return device_->Now() + std::chrono::microseconds(random() % 500);
  }

  std::vector<std::string> Run(unsigned seed) {
    std::mt19937 random(seed);
    Result<Scheduler> scheduler = MakeScheduler(GetParam());
    if (slices_) scheduler->config.best_effort_minimum = 0.9;
    Use(scheduler->config, 8 + random() % 32, FakeDevice::Time::kVirtual,
        std::move(scheduler->policy), 1 + random() % 4);
    if (slices_) device_->HaveBackground();
    requests_.clear();
    QueueOptions options;
    options.max_pending = 1000;
    std::vector<QueueId> queues;
    for (const Plan& plan : kPlans) {
      queues.push_back(AddQueue(plan.job_class, ChainOf(plan, plan.ops), options));
    }
    posted_.clear();
    std::vector<JobId> ids;
    for (int step = 0; step < 200; ++step) {
      const auto dice = random() % 20;
      if (dice < 2) {
        ids.push_back(PostTo(random() % std::size(kPlans), queues, random));
      } else if (dice == 2 && !ids.empty()) {
        dispatcher_->Cancel(ids[random() % ids.size()]);
      } else if (dice == 3) {
        device_->Advance(std::chrono::microseconds(random() % (slices_ ? 8000 : 50)));
      } else if (device_->PreferLast(random() % 4 == 0); device_->StartBlock()) {
        if (random() % 8 == 0) {
          ids.push_back(PostTo(2 + random() % 2, queues, random));
        }
        while (random() % 4 == 0) device_->RunBlockBeside();
        device_->FinishBlock(!device_->GuardsRaised() || random() % 2 == 0);
        DropFinished();
      }
    }
    device_->RunAll();
    // A slice, or what waits for a next job, ends by the time.
    for (int i = 0; slices_ && i < 100; ++i) {
      device_->Advance(std::chrono::milliseconds(5));
      device_->RunAll();
    }
    slices_seen_ += dispatcher_->Stats().slices;
    Check();
    return device_->log;
  }

  JobId PostTo(std::size_t index, const std::vector<QueueId>& queues, std::mt19937& random) {
    const Plan& plan = kPlans[index];
    Posted& posted = posted_.emplace_back();
    posted.blocks = plan.ops * plan.blocks;
    if (random() % 3 == 0) {
      const auto ops = static_cast<std::uint32_t>(1 + random() % 6);
      const auto loaded = ChainOf(plan, ops);
      loaded->plan.arena_bytes += random() % 1000;
      for (std::uint32_t end = 2; end < ops; end += 2) loaded->plan.part_ends.push_back(end);
      loaded->plan.part_ends.push_back(ops);
      for (std::uint32_t op = 0; groups_ && op < ops; ++op) {
        loaded->plan.ops[op].restart = static_cast<Restart>(random() % 3);
        loaded->plan.ops[op].group_first = op - random() % (op + 1);
      }
      posted.plan = *dispatcher_->AddPlan(queues[index], loaded);
      posted.blocks = ops * plan.blocks;
    }
    const TimePoint deadline = RandomDeadline(random);
    Request& request = Add();
    JobSpec spec{queues[index],   deadline, request.inputs,
                 request.outputs, &request, posted.plan.get()};
    spec.continues = slices_ && random() % 2 == 0;
    spec.continued = slices_ && random() % 2 == 0;
    return *dispatcher_->Post(spec);
  }

  void DropFinished() {
    for (std::size_t i = 0; i < posted_.size(); ++i) {
      if (requests_[i].finished > 0) posted_[i].plan = nullptr;
    }
  }

  void Check() {
    int done_blocks = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const Request& request = requests_[i];
      ASSERT_EQ(request.finished, 1);
      if (request.result.outcome != Outcome::kDone) {
        ASSERT_THAT(request.result.outcome,
                    ::testing::AnyOf(Outcome::kCancelled, Outcome::kExpired, Outcome::kTooLate));
        all_done_ = false;
        continue;
      }
      done_blocks += static_cast<int>(1 + posted_[i].blocks + 1);
    }
    reexecuted_ += dispatcher_->Stats().reexecuted;
    padded_ += dispatcher_->Stats().padded_launches;
    if (all_done_ && dispatcher_->Stats().reexecuted == 0) {
      EXPECT_EQ(device_->blocks_run, done_blocks);
    } else {
      EXPECT_GE(device_->blocks_run, done_blocks);
    }
    EXPECT_EQ(device_->launches(), 0u);
    EXPECT_EQ(device_->mixed, 0);
    all_done_ = true;
  }

  bool slices_ = false;  // best-effort work has a minimum and a background, and requests go on
  std::uint64_t slices_seen_ = 0;
  bool groups_ = false;  // some kernels restart with their groups, or never
  std::uint64_t reexecuted_ = 0, padded_ = 0;
  bool all_done_ = true;
  std::vector<Posted> posted_;  // by request
};

std::string Word(const ::testing::TestParamInfo<std::string_view>& info) {
  std::string word(info.param);
  std::ranges::replace_if(
      word, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return word;
}

TEST_P(RandomSchedules, LoseNothingAndAreDeterministic) {
  constexpr unsigned kSeeds = 600;  // for each scheduler
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<std::string> log = Run(seed);
    if (seed % 10 == 0) {
      ASSERT_EQ(log, Run(seed));
    }
    if (HasFailure()) break;
  }
  EXPECT_EQ(padded_ > 0, MakeScheduler(GetParam())->config.padding_kernels > 0);
}

TEST_P(RandomSchedules, LoseNothingWithSlicesEither) {
  slices_ = true;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    Run(seed);
    if (HasFailure()) break;
  }
  const bool preempts =
      MakeScheduler(GetParam())->config.preemption != SchedulerConfig::Preemption::kNone;
  EXPECT_EQ(slices_seen_ > 0, preempts);
}

TEST_P(RandomSchedules, LoseNothingWhereKernelsRestartWithTheirGroups) {
  groups_ = true;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<std::string> log = Run(seed);
    if (seed % 10 == 0) {
      ASSERT_EQ(log, Run(seed));
    }
    if (HasFailure()) break;
  }
  using Preemption = SchedulerConfig::Preemption;
  const Preemption preemption = MakeScheduler(GetParam())->config.preemption;
  EXPECT_EQ(reexecuted_ > 0, preemption == Preemption::kReset);
}

INSTANTIATE_TEST_SUITE_P(Schedulers, RandomSchedules, ::testing::ValuesIn(SchedulerNames()), Word);

INSTANTIATE_TEST_SUITE_P(Parameters, RandomSchedules,
                         ::testing::Values("lagoon:preempt_by_rank=1,fairness_threshold=2",
                                           "lagoon:fairness_threshold=2",
                                           "lagoon:fairness_threshold=0", "lagoon-ratio:depth=2",
                                           "reef:admit_by_deadline=1", "reef:padding_ahead=1",
                                           "reef:padding_leaves=1", "lagoon:padding_leaves=1",
                                           "lagoon:padding_ahead=1"),
                         Word);

}  // namespace
}  // namespace lagoon
