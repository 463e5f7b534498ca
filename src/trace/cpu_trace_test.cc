// A trace of real threads.

#include <gtest/gtest.h>

#include <deque>
#include <latch>

#include "device/cpu/cpu_device.h"
#include "policies/registry.h"
#include "sched/testing/fake_device.h"
#include "trace/testing/read_trace.h"

namespace lagoon::testing {
namespace {

// About 20 us with a check in their middle.
bool SpinBody(const void*, std::uint32_t, BlockContext& context) {
  for (int half = 0; half < 2; ++half) {
    if (context.ShouldLeave()) return false;
    const TimePoint until = Now() + std::chrono::microseconds(10);
    while (Now() < until) {
    }
  }
  return true;
}

class Client final : public JobClient {
 public:
  explicit Client(std::latch& done) : done_(done) {}
  void Finished(const JobResult& result) override {
    EXPECT_EQ(result.outcome, Outcome::kDone);
    done_.count_down();
  }
  float x[4] = {1, 2, 3, 4};
  float y[4] = {};
  const void* inputs[1] = {x};
  void* outputs[1] = {y};

 private:
  std::latch& done_;
};

TEST(CpuTrace, HasEveryBlockOfEveryJob) {
  constexpr int kJobs = 60;
  constexpr std::uint32_t kKernels = 3, kBlocks = 5;
  const auto device = *CreateCpuDevice({.workers = 2});
  const KernelHandle kernel = *device->Load({"spin", SpinBody}, {});
  ASSERT_EQ(kernel, KernelHandle{});  // the handle that the plan uses
  TraceRecorder recorder;
  recorder.Attach(*device);
  const auto instance = [&] { return *Instance::Create(ChainPlan(kKernels, kBlocks), *device); };
  const auto urgent = instance(), slow = instance();
  {
    Scheduler named = *MakeScheduler("lagoon");
    Dispatcher dispatcher(*device, named.config, std::move(named.policy), &recorder);
    QueueOptions options;
    options.name = "urgent";
    options.job_class = JobClass::kRealTime;
    options.instances = {urgent.get()};
    const QueueId real_time = *dispatcher.AddQueue(options);
    options.name = "slow";
    options.job_class = JobClass::kBestEffort;
    options.instances = {slow.get()};
    const QueueId best_effort = *dispatcher.AddQueue(options);
    std::latch done(kJobs);
    std::deque<Client> clients;
    for (int i = 0; i < kJobs; ++i) {
      Client& client = clients.emplace_back(done);
      const QueueId queue = i % 2 == 0 ? best_effort : real_time;
      ASSERT_TRUE(dispatcher.Post({queue, kNoDeadline, client.inputs, client.outputs, &client}));
    }
    done.wait();
  }
  const ReadTrace trace(TraceText(recorder));
  trace.Check();
  EXPECT_EQ(trace.other["dropped_blocks"], 0);
  EXPECT_EQ(trace.jobs.size(), static_cast<std::size_t>(kJobs));
  EXPECT_EQ(trace.Instants("arrival").size(), static_cast<std::size_t>(kJobs));
  std::map<std::pair<int, int>, std::uint32_t> committed;
  for (const auto& block : trace.blocks) {
    if (block.args["committed"]) ++committed[ReadTrace::JobOf(block)];
  }
  for (const auto& job : trace.jobs) {
    EXPECT_EQ(committed[ReadTrace::JobOf(job)], kKernels * kBlocks + 2);  // and its two copies
    EXPECT_EQ(job.args["outcome"], "done");
  }
  std::set<std::string> rows;
  for (const auto& block : trace.blocks) rows.insert(block.row);
  EXPECT_LE(rows.size(), 4u);  // one row per thread of a unit: its blocks never overlap
}

}  // namespace
}  // namespace lagoon::testing
