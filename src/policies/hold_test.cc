// What best-effort work does between two jobs of a real-time request, on a simulated device without
// latency; times in units of kFigureUnit. PartGap::kMostHold takes 10.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "policies/registry.h"
#include "sched/testing/closed_loop.h"

namespace lagoon::testing {
namespace {

constexpr double kMostHold = 10;

/// A real-time model whose requests take two jobs of 1, beside best-effort kernels of `block`.
class TwoParts {
 public:
  explicit TwoParts(const std::string& scheduler, double block = 50) {
    Scheduler named = *MakeScheduler(scheduler);
    dispatcher_ = std::make_unique<Dispatcher>(*device_, named.config, std::move(named.policy));
    text_ = std::make_unique<ClosedLoop>(
        *device_, *dispatcher_, SimTask{"text", JobClass::kBestEffort, 0, {{2, block}, {2, block}}},
        1);
    instance_ =
        *Instance::Create(PlanOf({"camera", JobClass::kRealTime, 0, {{2, 1}}}, *device_), *device_);
    QueueOptions options;
    options.name = "camera";
    options.job_class = JobClass::kRealTime;
    options.instances = {instance_.get()};
    queue_ = *dispatcher_->AddQueue(options);
  }
  ~TwoParts() {
    text_->Stop();
    Run(500);
  }

  /// Runs the first job of a request to its end.
  const Request& First(bool continues = true) { return Post(continues, /*continued=*/false); }
  /// Runs the second one, which is posted now.
  const Request& Second() { return Post(/*continues=*/false, /*continued=*/true); }

  void Run(double time) {
    const TimePoint until = device_->Now() + FigureTime(time);
    while (device_->Now() < until) {
      device_->Wait(std::min(until, device_->Now() + FigureTime(0.25)));
    }
  }
  DispatcherStats stats() const { return dispatcher_->Stats(); }
  /// How long best-effort work waited after the end of `last`, the last job. Gives up after 100.
  double Held(const Request& last) {
    for (int i = 0; i < 400 && stats().launches == without_; ++i) Run(0.25);
    return std::chrono::duration<double>(device_->Now() - last.result.finished) / kFigureUnit;
  }

 private:
  const Request& Post(bool continues, bool continued) {
    Request& request = requests_.emplace_back();
    JobSpec spec{queue_, kNoDeadline, request.inputs, request.outputs, &request};
    spec.continues = continues;
    spec.continued = continued;
    without_ = stats().launches + 3;  // a kernel and two copies
    EXPECT_TRUE(dispatcher_->Post(spec));
    for (int i = 0; i < 4000 && request.finished == 0; ++i) Run(0.25);
    EXPECT_EQ(request.finished, 1);
    return request;
  }

  const std::unique_ptr<SimDevice> device_ = FigureDevice(2, SimAbort::kCheck);
  // The dispatcher uses these, so they are destroyed after it.
  std::unique_ptr<ClosedLoop> text_;
  std::unique_ptr<Instance> instance_;
  std::deque<Request> requests_;
  std::unique_ptr<Dispatcher> dispatcher_;
  QueueId queue_{};
  std::uint64_t without_ = 0;  // launches, before those of best-effort work that follow
};

class Hold : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Schedulers, Hold, ::testing::Values("wait", "reset", "lagoon"));

TEST_P(Hold, TheNextJobOfARequestFindsTheDeviceFree) {
  for (const bool continues : {true, false}) {
    TwoParts parts(GetParam());
    parts.Run(10);
    parts.First(continues);
    parts.Run(2);
    const Request& second = parts.Second();
    const double waited =
        std::chrono::duration<double>(second.result.first_block - second.result.posted) /
        kFigureUnit;
    if (continues) {
      EXPECT_EQ(waited, 0);
    }
    // Without a hold the job preempts once more, or waits for the rest of a kernel of 50.
    const bool waits = std::string(GetParam()) == "wait";
    if (!continues && waits) {
      EXPECT_GT(waited, 40);
    }
    EXPECT_EQ(parts.stats().revocations, continues ? 1u : 2u);
    EXPECT_EQ(parts.stats().holds, continues ? 1u : 0u);
    EXPECT_EQ(parts.stats().holds_in_vain, 0u);
  }
}

TEST_P(Hold, EndsWhereTheNextJobDoesNotCome) {
  TwoParts parts(GetParam());
  parts.Run(10);
  EXPECT_NEAR(parts.Held(parts.First()), kMostHold, 0.5);
  EXPECT_EQ(parts.stats().holds_in_vain, 1u);
  EXPECT_NEAR(parts.Held(parts.First(/*continues=*/false)), 0, 0.5);
  EXPECT_EQ(parts.stats().holds, 1u);
}

TEST(HoldTest, IsAsLongAsTheGapsAre) {
  TwoParts parts("reset", /*block=*/0.5);
  for (int i = 0; i < 200; ++i) {
    parts.First();
    parts.Run(2);
    parts.Second();
    parts.Run(2);
  }
  EXPECT_NEAR(parts.Held(parts.First()), 2.5, 1);
}

TEST(HoldTest, IsNotBegunWhereTheGapsAreLongerThanItsBound) {
  TwoParts parts("reset");
  for (int i = 0; i < 3; ++i) {
    parts.First();
    parts.Run(1.5 * kMostHold);
    parts.Second();
  }
  EXPECT_NEAR(parts.Held(parts.First()), 0, 0.5);
  EXPECT_EQ(parts.stats().holds, 1u) << "the first, of which nothing was known";
}

}  // namespace
}  // namespace lagoon::testing
