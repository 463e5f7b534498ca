// Random arrivals, revocations, aborts, cancellations and deadlines under every named scheduler:
// nothing is lost, every kept block counts once, and the same seed gives the same schedule.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

  TimePoint RandomDeadline(std::mt19937& random) {
    if (random() % 3 != 0) return kNoDeadline;
    return device_->Now() + std::chrono::microseconds(random() % 500);
  }

  std::vector<std::string> Run(unsigned seed) {
    std::mt19937 random(seed);
    Result<Scheduler> scheduler = MakeScheduler(GetParam());
    Use(scheduler->config, 8 + random() % 32, FakeDevice::Time::kVirtual,
        std::move(scheduler->policy), 1 + random() % 4);
    requests_.clear();
    QueueOptions options;
    options.max_pending = 1000;
    std::vector<QueueId> queues;
    for (const Plan& plan : kPlans) {
      queues.push_back(AddQueue(plan.job_class, plan.ops, plan.blocks, options));
    }
    std::vector<std::size_t> plan_of;
    std::vector<JobId> ids;
    for (int step = 0; step < 200; ++step) {
      const auto dice = random() % 20;
      if (dice < 2) {
        plan_of.push_back(random() % std::size(kPlans));
        ids.push_back(*Post(queues[plan_of.back()], Add(), RandomDeadline(random)));
      } else if (dice == 2 && !ids.empty()) {
        dispatcher_->Cancel(ids[random() % ids.size()]);
      } else if (dice == 3) {
        device_->Advance(std::chrono::microseconds(random() % 50));
      } else if (device_->PreferLast(random() % 4 == 0); device_->StartBlock()) {
        if (random() % 8 == 0) {
          plan_of.push_back(2 + random() % 2);
          ids.push_back(*Post(queues[plan_of.back()], Add(), RandomDeadline(random)));
        }
        while (random() % 4 == 0) device_->RunBlockBeside();
        device_->FinishBlock(!device_->GuardsRaised() || random() % 2 == 0);
      }
    }
    device_->RunAll();
    Check(plan_of);
    return device_->log;
  }

  void Check(const std::vector<std::size_t>& plan_of) {
    int done_blocks = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      const Request& request = requests_[i];
      ASSERT_EQ(request.finished, 1);
      if (request.result.outcome != Outcome::kDone) {
        ASSERT_THAT(request.result.outcome,
                    ::testing::AnyOf(Outcome::kCancelled, Outcome::kExpired));
        all_done_ = false;
        continue;
      }
      const Plan& plan = kPlans[plan_of[i]];
      done_blocks += static_cast<int>(1 + plan.ops * plan.blocks + 1);
    }
    if (all_done_) {
      EXPECT_EQ(device_->blocks_run, done_blocks);
    } else {
      EXPECT_GE(device_->blocks_run, done_blocks);
    }
    EXPECT_EQ(device_->launches(), 0u);
    all_done_ = true;
  }

  bool all_done_ = true;
};

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
}

INSTANTIATE_TEST_SUITE_P(Schedulers, RandomSchedules, ::testing::ValuesIn(SchedulerNames()),
                         [](const auto& name) {
                           std::string word(name.param);
                           std::replace(word.begin(), word.end(), '-', '_');
                           return word;
                         });

}  // namespace
}  // namespace lagoon
