// Plans that come and go on one thread while jobs of others compute on the CPU device.

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <latch>
#include <random>
#include <thread>

#include "device/cpu/cpu_device.h"
#include "sched/dispatcher.h"
#include "sched/testing/fake_device.h"

namespace lagoon {
namespace {

constexpr std::uint32_t kBlockFloats = 64;

// Adds `weight` to a tile of x, with a guard check before it writes.
struct Args {
  const float* weight = nullptr;
  const float* x = nullptr;
  float* y = nullptr;
};
bool AddWeight(const void* pointer, std::uint32_t block, BlockContext& context) {
  const Args& args = *static_cast<const Args*>(pointer);
  for (int i = 0; i < 20; ++i) {
    if (context.ShouldLeave()) return false;
    const TimePoint until = Now() + std::chrono::nanoseconds(100);
    while (Now() < until) {
    }
  }
  for (std::uint32_t i = block * kBlockFloats; i < (block + 1) * kBlockFloats; ++i) {
    args.y[i] = args.x[i] + *args.weight;
  }
  return true;
}

class RealTimeBeforeOthers final : public Policy {
  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.RealTimeFirst());
  }
};

// One inference: x and y of the plan's size, and what y must be.
class Inference final : public JobClient {
 public:
  Inference(std::uint32_t blocks, float start) : x_(blocks * kBlockFloats), y_(x_.size(), -1) {
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] = start + static_cast<float>(i % 100);
  }
  void Finished(const JobResult& result) override {
    outcome = result.outcome;
    finished.count_down();
  }
  JobSpec Spec(QueueId queue, QueuePlan* plan) {
    return {queue, kNoDeadline, inputs_, outputs_, this, plan};
  }
  void ExpectSum(float added) const {
    EXPECT_EQ(outcome, Outcome::kDone);
    for (std::size_t i = 0; i < x_.size(); ++i) ASSERT_EQ(y_[i], x_[i] + added) << i;
  }
  std::latch finished{1};
  Outcome outcome{};

 private:
  std::vector<float> x_, y_;
  const void* inputs_[1] = {x_.data()};
  void* outputs_[1] = {y_.data()};
};

class QueuePlanThreads : public ::testing::Test {
 protected:
  explicit QueuePlanThreads(std::size_t memory = 0) {
    CpuDeviceOptions options;
    options.workers = 2;
    options.memory_limit_bytes = memory;
    device_ = *CreateCpuDevice(options);
    kernel_ = *device_->Load({"add", AddWeight}, {});
    auto chunk = std::make_shared<WeightChunk>();
    chunk->memory = *device_->Allocate(sizeof(float), MemoryKind::kDevice);
    const float weight = 0.5F;
    std::memcpy(chunk->memory.data(), &weight, sizeof(weight));
    weights_ = std::move(chunk);
    dispatcher_ = std::make_unique<Dispatcher>(
        *device_,
        SchedulerConfig{.name = "reset", .preemption = SchedulerConfig::Preemption::kReset},
        std::make_unique<RealTimeBeforeOthers>());
  }

  // A chain of kernels that each add the weight: x at the arena's begin, then each kernel's output.
  std::shared_ptr<const LoadedPlan> Adding(std::uint32_t ops, std::uint32_t blocks) {
    const auto loaded = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(ops, blocks));
    loaded->weights = {weights_};
    Plan& plan = loaded->plan;
    const std::size_t bytes = std::size_t{blocks} * kBlockFloats * sizeof(float);
    for (std::uint32_t i = 0; i < ops; ++i) {
      PlanOp& op = plan.ops[i];
      op.kernel = kernel_;
      op.args.resize(sizeof(Args));
      op.relocations = {{offsetof(Args, weight), Region::kWeights, 0},
                        {offsetof(Args, x), Region::kArena, i * bytes},
                        {offsetof(Args, y), Region::kArena, (i + 1) * bytes}};
    }
    plan.arena_bytes = (ops + 1) * bytes;
    const std::vector<std::int64_t> dims = {blocks * kBlockFloats};
    plan.inputs[0].spec.dims = plan.outputs[0].spec.dims = dims;
    plan.inputs[0].range = {Region::kArena, 0, bytes};
    plan.outputs[0].range = {Region::kArena, ops * bytes, bytes};
    return loaded;
  }
  QueueId AddQueue(JobClass job_class, std::size_t instances) {
    QueueOptions options;
    options.name = "adding";
    options.job_class = job_class;
    for (std::size_t i = 0; i < instances; ++i) {
      instances_.push_back(Instance::Create(*device_));
      options.instances.push_back(instances_.back().get());
    }
    return *dispatcher_->AddQueue(options);
  }
  void Run(QueueId queue, QueuePlan* plan) {
    const auto ops = static_cast<float>(plan->plan().ops.size());
    Inference inference(plan->plan().ops[0].blocks, 3);
    ASSERT_TRUE(dispatcher_->Post(inference.Spec(queue, plan)));
    inference.finished.wait();
    inference.ExpectSum(0.5F * ops);
  }

  std::unique_ptr<Device> device_;
  KernelHandle kernel_{};
  std::shared_ptr<const WeightChunk> weights_;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

TEST_F(QueuePlanThreads, OldAndNewPlansComputeInAnArenaThatGrows) {
  const QueueId queue = AddQueue(JobClass::kBestEffort, 1);
  std::deque<std::unique_ptr<QueuePlan>> plans;
  for (const std::uint32_t blocks : {2, 1, 7, 3, 40}) {
    plans.push_back(*dispatcher_->AddPlan(queue, Adding(3, blocks)));
    for (const auto& plan : plans) Run(queue, plan.get());
    for (const auto& plan : plans) Run(queue, plan.get());
  }
}

// A thread adds plans of changing sizes and drops old ones. Another has real-time jobs of two plans
// of its own queue, which revoke the others' jobs all the time.
TEST_F(QueuePlanThreads, ResultsAreRightWhilePlansComeAndGoUnderRevocation) {
  constexpr int kPlans = 120;
  const QueueId changing = AddQueue(JobClass::kBestEffort, 2);
  const QueueId urgent = AddQueue(JobClass::kRealTime, 1);
  const auto fast = *dispatcher_->AddPlan(urgent, Adding(2, 1));
  const auto faster = *dispatcher_->AddPlan(urgent, Adding(1, 2));
  std::atomic<bool> done{false};
  std::jthread real_time([&] {
    for (int i = 0; !done; ++i) Run(urgent, i % 2 == 0 ? fast.get() : faster.get());
  });
  std::mt19937 random(3);
  std::deque<std::unique_ptr<QueuePlan>> plans;  // least recently added first
  struct Running {
    std::unique_ptr<Inference> inference;
    float added = 0;
  };
  std::deque<Running> running;
  for (int i = 0; i < kPlans; ++i) {
    const auto ops = static_cast<std::uint32_t>(1 + random() % 5);
    plans.push_back(*dispatcher_->AddPlan(changing, Adding(ops, 1 + random() % 30)));
    for (int job = 0; job < 4; ++job) {
      QueuePlan& plan = *plans[random() % plans.size()];
      Running& posted = running.emplace_back();
      posted.added = 0.5F * static_cast<float>(plan.plan().ops.size());
      posted.inference = std::make_unique<Inference>(plan.plan().ops[0].blocks, 1);
      ASSERT_TRUE(dispatcher_->Post(posted.inference->Spec(changing, &plan)));
    }
    if (i % 5 != 4) continue;
    for (; !running.empty(); running.pop_front()) {
      running.front().inference->finished.wait();
      running.front().inference->ExpectSum(running.front().added);
    }
    while (plans.size() > 3) plans.pop_front();  // no job with one of them is left
  }
  done = true;
}

// Plans of one queue may come on several threads at once.
TEST_F(QueuePlanThreads, ThreadsMayAddPlansAtTheSameTime) {
  const QueueId queue = AddQueue(JobClass::kBestEffort, 2);
  std::vector<std::jthread> threads;
  for (std::uint32_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([this, queue, thread] {
      for (std::uint32_t i = 0; i < 30; ++i) {
        const auto plan = *dispatcher_->AddPlan(queue, Adding(2, 1 + (i * 5 + thread * 3) % 17));
        Run(queue, plan.get());
      }
    });
  }
}

class QueuePlanMemory : public QueuePlanThreads {
 protected:
  static constexpr std::size_t kLimit = std::size_t{1} << 20;
  QueuePlanMemory() : QueuePlanThreads(kLimit) {}
};

// Two arenas of the second size do not fit beside two of the first.
TEST_F(QueuePlanMemory, APlanThatFindsNoneLeavesNothingBehind) {
  const QueueId queue = AddQueue(JobClass::kBestEffort, 2);
  const auto small = *dispatcher_->AddPlan(queue, Adding(1, 100));   // 50 KiB
  const auto failed = dispatcher_->AddPlan(queue, Adding(1, 1200));  // 600 KiB
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(failed.error().message.rfind("queue 'adding': ", 0), 0u) << failed.error().message;
  EXPECT_TRUE(device_->Allocate(kLimit - 110 * 1024, MemoryKind::kDevice));
  const auto larger = *dispatcher_->AddPlan(queue, Adding(1, 600));  // 300 KiB
  for (int i = 0; i < 4; ++i) {
    Run(queue, larger.get());
    Run(queue, small.get());
  }
}

}  // namespace
}  // namespace lagoon
