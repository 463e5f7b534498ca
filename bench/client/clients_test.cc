#include "bench/client/clients.h"

#include <gtest/gtest.h>

#include "bench/client/temporary_repository.h"
#include "sched/policy.h"

namespace lagoon::bench {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

// Jobs in order of arrival.
class InOrder final : public Policy {
 public:
  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.First());
  }
};

class OpenLoopTest : public ::testing::Test {
 protected:
  OpenLoopTest() : on_(*OpenDevice({.workers = 1})) {
    auto repository = *TemporaryRepository::Link("", {});
    const std::int64_t dims[] = {1, 3, 8, 8};
    EXPECT_TRUE(repository.AddChannelMeans("means", dims));
    model_ = *BoundModel::Load(ModelFile(repository.path(), "means"), "means", on_);
    dispatcher_ =
        std::make_unique<Dispatcher>(*on_.device, SchedulerConfig{}, std::make_unique<InOrder>());
    QueueOptions queue;
    queue.name = "means";
    queue.instances = {&model_->instance()};
    queue.max_pending = 100;
    queue_ = *dispatcher_->AddQueue(queue);
  }
  OpenLoopClient Client() { return OpenLoopClient(*dispatcher_, queue_, *model_); }

  std::unique_ptr<BoundModel> model_;  // outlives the device: its threads use the model's memory
  ComputeDevice on_;
  std::unique_ptr<Dispatcher> dispatcher_;
  QueueId queue_{};
};

// All arrivals are long over, so that all requests end after any window that began then.
TEST_F(OpenLoopTest, EachRequestSaysWhenItEnded) {
  const TimePoint begin = Now() - hours(1);
  const std::vector<TimePoint> arrivals = {begin, begin + milliseconds(1), begin + milliseconds(2)};
  const std::vector<Sample> samples = Client().Run(arrivals);
  ASSERT_EQ(samples.size(), 3u);
  for (const Sample& sample : samples) {
    EXPECT_GT(sample.finished, begin + hours(1));
    EXPECT_GT(sample.latency_ms, ToMilliseconds(hours(1)) - 2);
    EXPECT_EQ(sample.latency_ms, sample.from_arrival_ms);
  }
}

TEST_F(OpenLoopTest, AClientMayTakeTheNewestRequestAndDropTheOthers) {
  const TimePoint begin = Now() - hours(1);
  const std::vector<TimePoint> arrivals = {begin, begin + milliseconds(1), begin + milliseconds(2)};
  const std::vector<Sample> samples = Client().RunNewest(arrivals);
  ASSERT_EQ(samples.size(), 1u);
  EXPECT_GT(samples[0].from_arrival_ms, ToMilliseconds(hours(1)) - 3);
  EXPECT_LT(samples[0].latency_ms, samples[0].from_arrival_ms) << "it counts from the post";
}

}  // namespace
}  // namespace lagoon::bench
