// The dispatcher on a simulated device, in virtual time.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "sched/testing/dispatcher_fixture.h"
#include "sched/testing/sim_scenario.h"
#include "sim/device/sim_device.h"

namespace lagoon::testing {
namespace {

using std::chrono::microseconds;

// A best-effort job of 50 kernels, 100 us each on all units, and a real-time job of five kernels
// that arrives in its middle.
struct Scenario {
  JobResult best_effort, real_time;
  Nanoseconds real_time_latency{0};

  explicit Scenario(SchedulerConfig::Preemption preemption) {
    const auto device = *CreateSimDevice("mi50");
    const KernelSpec spec{0, {.time = microseconds(100)}};
    const KernelHandle kernel = *device->Load({"kernel", nullptr}, spec);
    LAGOON_CHECK(kernel == KernelHandle{});  // the handle that the fixture's plans use
    const auto slow = *Instance::Create(ChainPlan(50, 60), *device);
    const auto urgent = *Instance::Create(ChainPlan(5, 60), *device);
    SchedulerConfig config;
    config.name = "test";
    config.preemption = preemption;
    Dispatcher dispatcher(*device, config, std::make_unique<ClassFirst>());
    QueueOptions options;
    options.name = "best effort";
    options.job_class = JobClass::kBestEffort;
    options.instances = {slow.get()};
    const QueueId be = *dispatcher.AddQueue(options);
    options.name = "real time";
    options.job_class = JobClass::kRealTime;
    options.instances = {urgent.get()};
    const QueueId rt = *dispatcher.AddQueue(options);

    Request first, second;
    EXPECT_TRUE(dispatcher.Post({be, kNoDeadline, first.inputs, first.outputs, &first}));
    const TimePoint arrival = device->Now() + microseconds(1'250);
    while (device->Now() < arrival) device->Wait(arrival);
    EXPECT_TRUE(dispatcher.Post({rt, kNoDeadline, second.inputs, second.outputs, &second}));
    while (first.finished + second.finished < 2) device->Wait(kNoDeadline);
    best_effort = first.result;
    real_time = second.result;
    real_time_latency = real_time.computed - real_time.posted;
  }
};

TEST(SimDispatch, RealTimeWorkPreemptsWithinTheStepsOfTheModel) {
  const Scenario run(SchedulerConfig::Preemption::kReset);
  EXPECT_EQ(run.best_effort.outcome, Outcome::kDone);
  EXPECT_EQ(run.best_effort.revocations, 1u);
  // REEF's steps (host 3 us, word 1 us, four kernels of 7.75 us in the queue), then five kernels
  // and the gaps between them, and a few submissions by the host.
  const Nanoseconds least = microseconds(3 + 1 + 31 + 500);
  EXPECT_GE(run.real_time_latency, least);
  EXPECT_LE(run.real_time_latency, least + microseconds(15));
}

TEST(SimDispatch, WithoutPreemptionItWaitsForWhatIsQueued) {
  const Scenario run(SchedulerConfig::Preemption::kNone);
  EXPECT_EQ(run.best_effort.revocations, 0u);
  EXPECT_GE(run.real_time_latency, microseconds(550));
}

TEST(SimDispatch, RunsAreIdentical) {
  const Scenario a(SchedulerConfig::Preemption::kReset);
  const Scenario b(SchedulerConfig::Preemption::kReset);
  EXPECT_EQ(a.real_time_latency, b.real_time_latency);
  EXPECT_EQ(a.real_time.finished, b.real_time.finished);
  EXPECT_EQ(a.best_effort.finished, b.best_effort.finished);
}

// A best-effort kernel of blocks that take 150 ms, and a real-time request every 20 ms: four blocks
// of 300 us.
class LongBlocks {
 public:
  static constexpr Nanoseconds kPause = std::chrono::milliseconds(20);
  static constexpr Nanoseconds kLong = std::chrono::milliseconds(150);
  static constexpr Nanoseconds kShort = microseconds(300);

  LongBlocks(std::uint32_t units, std::uint32_t blocks, UnitRange real_time_units = {})
      : device_(FigureDevice(units, SimAbort::kCheck)),
        dispatcher_(*device_, kConfig, std::make_unique<ClassFirst>()) {
    best_effort_ = Add({"long", JobClass::kBestEffort, 0, {{blocks, 1500}}});
    real_time_ = Add({"often", JobClass::kRealTime, 0, {{4, 3}}, {}, real_time_units});
    Post(best_effort_, long_);
  }
  ~LongBlocks() {
    while (long_.finished == 0) device_->Wait(kNoDeadline);
  }

  /// Posts a real-time request after each pause until the best-effort request has ended, but at
  /// most `most`.
  void Run(int most) {
    for (int i = 0; i < most && long_.finished == 0; ++i) {
      const TimePoint arrival = device_->Now() + kPause;
      while (device_->Now() < arrival) device_->Wait(arrival);
      Post(real_time_, requests_.emplace_back());
    }
    while (requests_.back().finished == 0) device_->Wait(kNoDeadline);
  }
  bool ended() const { return long_.finished != 0; }
  Nanoseconds LongTime() const { return long_.result.finished - long_.result.posted; }
  Nanoseconds LongestRealTime() const {
    Nanoseconds longest{0};
    for (const Request& request : requests_) {
      longest = std::max(longest, request.result.finished - request.result.posted);
    }
    return longest;
  }

 private:
  static constexpr SchedulerConfig kConfig = {.name = "reset",
                                              .preemption = SchedulerConfig::Preemption::kReset};

  QueueId Add(const SimTask& task) {
    instances_.push_back(*Instance::Create(PlanOf(task, *device_), *device_));
    QueueOptions options;
    options.name = task.name;
    options.job_class = task.job_class;
    options.units = task.units;
    options.instances = {instances_.back().get()};
    return *dispatcher_.AddQueue(options);
  }
  void Post(QueueId queue, Request& request) {
    EXPECT_TRUE(dispatcher_.Post({queue, kNoDeadline, request.inputs, request.outputs, &request}));
  }

  std::unique_ptr<SimDevice> device_;
  std::vector<std::unique_ptr<Instance>> instances_;
  Request long_;
  std::deque<Request> requests_;
  Dispatcher dispatcher_;
  QueueId best_effort_{}, real_time_{};
};

constexpr Nanoseconds kSlack = std::chrono::milliseconds(1);  // for checks of guards and copies

TEST(SimDispatch, ALongBlockEndsBesideFrequentRealTimeWork) {
  LongBlocks run(4, 1);
  run.Run(1'000);
  ASSERT_TRUE(run.ended());
  EXPECT_LE(run.LongTime(), 9 * LongBlocks::kPause + LongBlocks::kLong + kSlack);
  // Real-time work has three of the four units meanwhile.
  EXPECT_LE(run.LongestRealTime(), 2 * LongBlocks::kShort + microseconds(50));
}

TEST(SimDispatch, SeveralLongBlocksEndOneAfterTheOther) {
  LongBlocks run(4, 3);
  run.Run(1'000);
  ASSERT_TRUE(run.ended());
  EXPECT_LE(run.LongTime(), 9 * LongBlocks::kPause + LongBlocks::kLong +
                                2 * (3 * LongBlocks::kPause + LongBlocks::kLong) + kSlack);
  EXPECT_LE(run.LongestRealTime(), 2 * LongBlocks::kShort + microseconds(50));
}

TEST(SimDispatch, TheOnlyUnitOfRealTimeWorkIsNeverTaken) {
  for (const UnitRange share : {UnitRange{}, UnitRange{1, 1}}) {
    LongBlocks run(share.count == 0 ? 1 : 2, 1, share);
    run.Run(40);
    EXPECT_FALSE(run.ended());
    EXPECT_LE(run.LongestRealTime(), 4 * LongBlocks::kShort + microseconds(50));
  }
}

// Two models of one kernel each, whose blocks take 1 ms, on a unit each.
class TwoShares {
 public:
  explicit TwoShares(JobClass job_class = JobClass::kBestEffort, std::uint32_t blocks = 1)
      : device_(FigureDevice(2, SimAbort::kCheck)),
        dispatcher_(*device_, {.name = "shares"}, std::make_unique<ClassFirst>()) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      const SimTask task{"model", job_class, 0, {{blocks, 10}, {blocks, 10}}, {}, {i, 1}};
      instances_.push_back(*Instance::Create(PlanOf(task, *device_), *device_));
      QueueOptions options;
      options.name = fmt::format("model {}", i);
      options.job_class = job_class;
      options.units = task.units;
      options.instances = {instances_.back().get()};
      queues_.push_back(*dispatcher_.AddQueue(options));
      Request& request = requests_[i];
      EXPECT_TRUE(
          dispatcher_.Post({queues_[i], kNoDeadline, request.inputs, request.outputs, &request}));
    }
  }
  void RunUntil(Nanoseconds time) {
    while (device_->Now() < begin_ + time) device_->Wait(begin_ + time);
  }
  Status Move(std::vector<UnitRange> to) {
    std::vector<QueueMove> moves;
    for (std::size_t i = 0; i < to.size(); ++i) moves.push_back({queues_[i], to[i]});
    return dispatcher_.MoveShares(moves);
  }
  Nanoseconds End(std::size_t model) {
    while (requests_[model].finished == 0) device_->Wait(kNoDeadline);
    EXPECT_EQ(requests_[model].result.outcome, Outcome::kDone);
    return requests_[model].result.finished - begin_;
  }
  std::uint64_t evictions() const { return dispatcher_.Stats().share_evictions; }
  const std::vector<QueueId>& queues() const { return queues_; }
  Dispatcher& dispatcher() { return dispatcher_; }

 private:
  std::unique_ptr<SimDevice> device_;
  const TimePoint begin_ = device_->Now();
  std::vector<std::unique_ptr<Instance>> instances_;
  Request requests_[2];
  std::vector<QueueId> queues_;
  Dispatcher dispatcher_;
};

// After .5 ms they change places. Each kernel begins anew on its new unit at once; otherwise it
// would wait for the block of the other one, and both would need 1 ms more.
TEST(SimDispatch, SharesThatChangePlacesRunOnAtOnce) {
  for (const JobClass job_class : {JobClass::kBestEffort, JobClass::kRealTime}) {
    TwoShares run(job_class);
    run.RunUntil(microseconds(500));
    ASSERT_TRUE(run.Move({{1, 1}, {0, 1}}));
    EXPECT_GE(run.evictions(), 2u);
    for (const std::size_t model : {0u, 1u}) {
      EXPECT_GE(run.End(model), microseconds(2500));
      EXPECT_LE(run.End(model), microseconds(2520));
    }
  }
}

TEST(SimDispatch, AShareThatOnlyGrowsLosesNoBlock) {
  TwoShares run;
  run.RunUntil(microseconds(500));
  ASSERT_TRUE(run.Move({{0, 2}}));
  EXPECT_EQ(run.evictions(), 0u);
  EXPECT_LE(run.End(0), microseconds(2010));
}

TEST(SimDispatch, MovesThatAreWrongMoveNothing) {
  TwoShares run;
  const auto wrong = [&](std::vector<QueueMove> moves, const char* word) {
    const Status moved = run.dispatcher().MoveShares(moves);
    ASSERT_FALSE(moved);
    EXPECT_EQ(moved.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(moved.error().message.find(word), std::string::npos) << moved.error().message;
  };
  run.RunUntil(microseconds(500));
  wrong({{run.queues()[0], {1, 1}}, {run.queues()[1], {0, 3}}}, "queue 'model 1'");
  wrong({{run.queues()[0], {1, 1}}, {run.queues()[0], {0, 1}}}, "'model 0' comes twice");
  wrong({{run.queues()[0], {1, 1}}, {QueueId{7}, {0, 1}}}, "queue 7");
  EXPECT_EQ(run.evictions(), 0u);
  EXPECT_LE(run.End(0), microseconds(2010));
}

}  // namespace
}  // namespace lagoon::testing
