// Plans that come and go while the jobs of their queue run.

#include "sched/queue_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "sched/testing/dispatcher_fixture.h"

namespace lagoon {
namespace {

using std::chrono::microseconds;
using testing::ChainPlan;
using testing::Request;

// Writes down what it is told.
class Notes final : public SchedObserver {
 public:
  void OnStart(const SchedulerConfig&, TimePoint) override { notes.emplace_back("start"); }
  void OnSwitch(const SchedulerConfig&, TimePoint) override { notes.emplace_back("switch"); }
  void OnQueue(QueueId queue, const QueueOptions&) override { Note("queue", Raw(queue)); }
  void OnPlan(QueueId, std::uint32_t number, const Plan& plan) override {
    notes.push_back("plan " + std::to_string(number) + " of " + std::to_string(plan.ops.size()));
  }
  void OnEvent(const SchedEvent& event) override {
    const bool kernel = event.kind == SchedEvent::Kind::kLaunched &&
                        event.work == SchedEvent::Work::kKernel && event.index == 0;
    if (kernel) Note("run", event.value);
  }
  std::vector<std::string> notes;

 private:
  void Note(std::string what, std::uint32_t value) {
    notes.push_back(std::move(what) + " " + std::to_string(value));
  }
};

class QueuePlanTest : public testing::DispatcherTest {
 protected:
  // A queue of instances without a plan.
  QueueId AddEmptyQueue(JobClass job_class, std::size_t instances = 1) {
    QueueOptions options;
    options.name = "shapes";
    options.job_class = job_class;
    for (std::size_t i = 0; i < instances; ++i) {
      instances_.push_back(Instance::Create(*device_));
      options.instances.push_back(instances_.back().get());
    }
    return *dispatcher_->AddQueue(options);
  }
  std::unique_ptr<QueuePlan> AddPlan(QueueId queue, std::uint32_t ops, std::uint32_t blocks) {
    return *dispatcher_->AddPlan(queue, ChainPlan(ops, blocks));
  }
  Result<JobId> Post(QueueId queue, Request& request, QueuePlan* plan) {
    return dispatcher_->Post({queue, kNoDeadline, request.inputs, request.outputs, &request, plan});
  }
  std::string Refusal(QueueId queue, QueuePlan* plan) {
    const Result<JobId> refused = Post(queue, Add(), plan);
    requests_.pop_back();
    if (refused) return "posted";
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    return refused.error().message;
  }
  // Destroys the dispatcher before what the plans of the tests refer to.
  ~QueuePlanTest() override { dispatcher_.reset(); }
};

TEST_F(QueuePlanTest, JobsRunThePlanThatTheyName) {
  UseReset();
  const QueueId queue = AddQueue(JobClass::kBestEffort, 2, 3);
  const auto wide = AddPlan(queue, 4, 5);
  const auto deep = AddPlan(queue, 30, 1);
  int blocks = 0;
  for (QueuePlan* plan : {wide.get(), static_cast<QueuePlan*>(nullptr), deep.get(), wide.get()}) {
    ASSERT_TRUE(Post(queue, Add(), plan));
    blocks += 2 + (plan == wide.get() ? 4 * 5 : plan == nullptr ? 2 * 3 : 30);
  }
  device_->RunAll();
  for (const Request& request : requests_) EXPECT_EQ(request.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, blocks);
}

TEST_F(QueuePlanTest, AJobMayRunOnAnyInstanceOfItsQueue) {
  UseReset();
  const QueueId queue = AddEmptyQueue(JobClass::kBestEffort, 3);
  const auto narrow = AddPlan(queue, 2, 1), wide = AddPlan(queue, 3, 4);
  for (int i = 0; i < 12; ++i)
    ASSERT_TRUE(Post(queue, Add(), i % 2 == 0 ? narrow.get() : wide.get()));
  device_->RunAll();
  for (const Request& request : requests_) EXPECT_EQ(request.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, 6 * (2 + 2) + 6 * (2 + 12));
}

TEST_F(QueuePlanTest, WhatDoesNotFitIsRefused) {
  UseReset();
  const QueueId queue = AddEmptyQueue(JobClass::kBestEffort);
  const QueueId other = AddQueue(JobClass::kBestEffort, 2, 3);
  const auto plan = AddPlan(queue, 2, 1);
  EXPECT_EQ(Refusal(queue, nullptr),
            "queue 'shapes': its instances were created without a plan, so that the job must name "
            "one");
  EXPECT_EQ(Refusal(other, plan.get()), "queue 'chain' has number 1, the job's plan is of queue 0");

  auto two_outputs = std::const_pointer_cast<LoadedPlan>(ChainPlan(2, 3));
  two_outputs->plan.outputs.push_back(two_outputs->plan.outputs.front());
  const auto more = *dispatcher_->AddPlan(queue, two_outputs);
  EXPECT_EQ(Refusal(queue, more.get()),
            "queue 'shapes': the plan has 1 inputs and 2 outputs, the job 1 and 1");

  const auto own = *Instance::Create(ChainPlan(1, 1), *device_);
  CostTable costs(own->plan());
  JobSpec spec{queue, kNoDeadline, {}, {}, nullptr, plan.get(), own.get(), &costs};
  EXPECT_EQ(dispatcher_->Post(spec).error().message,
            "queue 'shapes': the job has an instance of its own and a plan of the queue; set one "
            "of the two");

  EXPECT_EQ(dispatcher_->AddPlan(QueueId{7}, ChainPlan(1, 1)).error().message,
            "there is no queue 7");
  QueueOptions mixed;
  mixed.name = "mixed";
  mixed.instances = {instances_[0].get(), instances_[1].get()};
  EXPECT_EQ(dispatcher_->AddQueue(mixed).error().message,
            "queue 'mixed': its 2 instances were not all created with the same plan");
}

TEST_F(QueuePlanTest, PlansComeAndGoWhileAJobIsInTheDevice) {
  UseReset();
  const QueueId queue = AddEmptyQueue(JobClass::kBestEffort);
  const auto stays = AddPlan(queue, 3, 2);
  ASSERT_TRUE(Post(queue, Add(), stays.get()));
  ASSERT_TRUE(device_->RunBlock() && device_->StartBlock());
  {
    const auto unused = AddPlan(queue, 9, 9);
    auto large = std::const_pointer_cast<LoadedPlan>(ChainPlan(4, 1));
    large->plan.arena_bytes = 1 << 20;
    large->plan.outputs[0].range.offset = (1 << 20) - 16;
    const auto goes = *dispatcher_->AddPlan(queue, large);
    ASSERT_TRUE(Post(queue, Add(), goes.get()));
    device_->FinishBlock(true);
    ASSERT_TRUE(Post(queue, Add(), stays.get()));
    while (requests_[1].finished == 0) ASSERT_TRUE(device_->RunBlock());
  }
  dispatcher_->FreeUnused(queue);
  AddPlan(queue, 1, 1);  // gone at once
  ASSERT_TRUE(Post(queue, Add(), stays.get()));
  device_->RunAll();
  for (const Request& request : requests_) EXPECT_EQ(request.result.outcome, Outcome::kDone);
  EXPECT_EQ(device_->blocks_run, 3 * (2 + 3 * 2) + (2 + 4));
}

// A client may destroy the plan in Finished(), on the dispatcher's own thread.
// As a thread of low priority does that is not scheduled while it allocates.
TEST_F(QueuePlanTest, AShareMovesAndJobsRunWhileAPlanIsAdded) {
  UseReset();
  const QueueId queue = AddEmptyQueue(JobClass::kBestEffort);
  const auto plan = AddPlan(queue, 2, 2);
  auto large = std::const_pointer_cast<LoadedPlan>(ChainPlan(1, 1));
  large->plan.arena_bytes = 1 << 20;
  std::promise<void> allocating, go;
  device_->on_allocate = [&] {
    allocating.set_value();
    go.get_future().wait();
  };
  std::jthread adding([&] { EXPECT_TRUE(dispatcher_->AddPlan(queue, large)); });
  allocating.get_future().wait();
  EXPECT_TRUE(dispatcher_->MoveShare(queue, {0, 1}));
  ASSERT_TRUE(Post(queue, Add(), plan.get()));
  device_->RunAll();
  EXPECT_EQ(requests_.back().result.outcome, Outcome::kDone);
  go.set_value();
}

TEST_F(QueuePlanTest, AClientMayDropThePlanInFinished) {
  struct Last final : JobClient {
    void Finished(const JobResult&) override { plan = nullptr; }
    std::unique_ptr<QueuePlan> plan;
  };
  UseReset();
  const QueueId queue = AddEmptyQueue(JobClass::kBestEffort);
  Last last;
  last.plan = AddPlan(queue, 3, 2);
  Request& request = Add();
  ASSERT_TRUE(dispatcher_->Post(
      {queue, kNoDeadline, request.inputs, request.outputs, &last, last.plan.get()}));
  device_->RunAll();
  EXPECT_EQ(last.plan, nullptr);
  const auto next = AddPlan(queue, 2, 2);
  ASSERT_TRUE(Post(queue, Add(), next.get()));
  device_->RunAll();
  EXPECT_EQ(requests_.back().result.outcome, Outcome::kDone);
}

TEST_F(QueuePlanTest, CostsFollowEachPlanByItself) {
  UseReset();
  const QueueId queue = AddEmptyQueue(JobClass::kBestEffort);
  const auto slow = AddPlan(queue, 1, 1), fast = AddPlan(queue, 1, 1);
  for (const auto& [plan, time] :
       {std::pair(slow.get(), microseconds(900)), std::pair(fast.get(), microseconds(20))}) {
    ASSERT_TRUE(Post(queue, Add(), plan));
    ASSERT_TRUE(device_->RunBlock() && device_->StartBlock());
    device_->Advance(time);
    device_->FinishBlock(true);
    device_->RunAll();
  }
  EXPECT_EQ(slow->costs().total(), microseconds(900));
  EXPECT_EQ(fast->costs().total(), microseconds(20));
}

TEST_F(QueuePlanTest, ObserversLearnOfAPlanBeforeItsJobs) {
  Notes observer;
  UseReset();
  dispatcher_ = nullptr;
  dispatcher_ = std::make_unique<Dispatcher>(*device_, kReset,
                                             std::make_unique<testing::ClassFirst>(), &observer);
  const QueueId empty = AddEmptyQueue(JobClass::kBestEffort);
  const QueueId queue = AddQueue(JobClass::kBestEffort, 2, 1);
  const auto one = AddPlan(queue, 3, 1);
  const auto other = AddPlan(empty, 5, 1);
  AddPlan(queue, 4, 1);
  const auto three = AddPlan(queue, 6, 1);
  for (QueuePlan* plan : {three.get(), one.get(), static_cast<QueuePlan*>(nullptr)}) {
    ASSERT_TRUE(Post(queue, Add(), plan));
  }
  device_->RunAll();
  dispatcher_->Switch(kReset, std::make_unique<testing::ClassFirst>(), [](const Status&) {});
  EXPECT_THAT(observer.notes,
              ::testing::ElementsAre("start", "queue 0", "queue 1", "plan 0 of 2", "plan 1 of 3",
                                     "plan 1 of 5", "plan 2 of 4", "plan 3 of 6", "run 3", "run 1",
                                     "run 0", "switch"));
  dispatcher_ = nullptr;  // before the observer
}

// A padding launch has a guard on a record of the real-time plan. The plan may be gone before the
// launch has retired. Under the address sanitizer, a record that is freed too early is an error.
TEST_F(QueuePlanTest, PaddingOutlivesTheRealTimePlanBesideWhichItRuns) {
  const auto chain = [](std::vector<std::uint32_t> blocks, Nanoseconds block) {
    auto loaded = std::const_pointer_cast<LoadedPlan>(
        ChainPlan(static_cast<std::uint32_t>(blocks.size()), 1));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      loaded->plan.ops[i].blocks = blocks[i];
      loaded->plan.ops[i].cost = {block * blocks[i], block};
    }
    return loaded;
  };
  Use({.name = "padding", .preemption = SchedulerConfig::Preemption::kReset, .padding_kernels = 16},
      64, testing::FakeDevice::Time::kVirtual, std::make_unique<testing::ClassFirst>(),
      /*units=*/2);
  const QueueId background = AddQueue(JobClass::kBestEffort, chain({8}, microseconds(20)));
  const QueueId urgent = AddEmptyQueue(JobClass::kRealTime);
  auto plan = *dispatcher_->AddPlan(urgent, chain({1, 1}, microseconds(50)));
  Request &slow = Add(), &fast = Add();
  ASSERT_TRUE(Post(urgent, fast, plan.get()));
  ASSERT_TRUE(testing::DispatcherTest::Post(background, slow));
  ASSERT_TRUE(device_->RunBlock());  // the real-time input
  ASSERT_EQ(dispatcher_->Stats().padded_launches, 1u);
  device_->PreferLast(true);
  ASSERT_TRUE(device_->RunBlock());    // the best-effort input
  ASSERT_TRUE(device_->StartBlock());  // a block of the padding, which goes on running
  device_->PreferLast(false);
  const std::weak_ptr<const ProgressRecords> records = instances_.back()->records();
  while (fast.finished == 0) ASSERT_TRUE(device_->RunBlockBeside());
  plan = nullptr;
  EXPECT_FALSE(records.expired());
  EXPECT_TRUE(device_->GuardsRaised());
  device_->FinishBlock(false);
  EXPECT_TRUE(records.expired());
  device_->RunAll();
  EXPECT_EQ(slow.result.outcome, Outcome::kDone);
}

TEST_F(QueuePlanTest, AQueueThatIsRemovedGivesItsPlaceToALaterOne) {
  Use({});
  const QueueId queue = AddQueue(JobClass::kBestEffort, 2, 1);
  const QueueId other = AddQueue(JobClass::kBestEffort, 1, 1);
  Request& left = Add();
  ASSERT_TRUE(Post(queue, left, nullptr));
  const Status busy = dispatcher_->RemoveQueue(queue);
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(busy.error().message.find("'chain'"), std::string::npos) << busy.error().message;
  device_->RunAll();
  ASSERT_EQ(left.finished, 1) << "the refusal has changed nothing";

  ASSERT_TRUE(dispatcher_->RemoveQueue(queue));
  EXPECT_FALSE(dispatcher_->RemoveQueue(queue)) << "it is not there any more";
  EXPECT_FALSE(dispatcher_->RemoveQueue(QueueId{99}));
  instances_.erase(instances_.begin());  // nothing uses the instance

  const QueueId again = AddQueue(JobClass::kRealTime, 3, 2);
  EXPECT_EQ(again, queue);
  EXPECT_NE(again, other);
  for (const QueueId one : {again, other}) {
    Request& request = Add();
    ASSERT_TRUE(Post(one, request, nullptr));
    device_->RunAll();
    EXPECT_EQ(request.finished, 1);
    EXPECT_EQ(request.result.outcome, Outcome::kDone);
  }
}

}  // namespace
}  // namespace lagoon
