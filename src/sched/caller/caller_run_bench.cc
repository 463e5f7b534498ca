// What a caller waits for a tiny real-time job beyond the job's own work: one that sleeps until a
// worker has run the job, one that spins, and one that works itself. Back to back, and with pauses
// of a millisecond, in which workers and their cores fall asleep. Two workers. Microseconds.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "device/cpu/cpu_device.h"
#include "sched/caller/caller_run.h"
#include "sched/testing/fake_device.h"

namespace lagoon {
namespace {

bool Nothing(const void*, std::uint32_t, BlockContext&) { return true; }

class RealTimeFirst final : public Policy {
  Decision Pick(const SchedulingView& view) override {
    return Decision::RunOrWait(view.ready.RealTimeFirst());
  }
};

// As most programs wait for a job that others run: it allocates, and sleeps at once.
class SleepingClient final : public JobClient {
 public:
  void Finished(const JobResult&) override {
    const MutexLock lock(mutex_);
    finished_ = true;
    changed_.NotifyOne();
  }
  void Run(Dispatcher& dispatcher, JobSpec spec) {
    finished_ = false;
    spec.client = this;
    LAGOON_CHECK(dispatcher.Post(spec).has_value());
    const MutexLock lock(mutex_);
    while (!finished_) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool finished_ = false;
};

enum Way : std::int64_t { kPostAndSleep, kSleeps, kSpins, kWorks };

void BM_TinyPlan(benchmark::State& state) {
  const auto way = static_cast<Way>(state.range(0));
  const Nanoseconds pause = std::chrono::microseconds(state.range(1));
  const std::unique_ptr<Device> device = *CreateCpuDevice({.workers = 2});
  auto loaded = std::const_pointer_cast<LoadedPlan>(testing::ChainPlan(3, 1));
  const KernelHandle kernel = *device->Load({"nothing", Nothing}, {});
  for (PlanOp& op : loaded->plan.ops) op.kernel = kernel;
  const auto instance = *Instance::Create(loaded, *device);
  Dispatcher dispatcher(*device,
                        {.name = "reset", .preemption = SchedulerConfig::Preemption::kReset},
                        std::make_unique<RealTimeFirst>());
  QueueOptions options;
  options.name = "chain";
  options.job_class = JobClass::kRealTime;
  options.instances = {instance.get()};
  float x[4] = {}, y[4] = {};
  const void* const inputs[] = {x};
  void* const outputs[] = {y};
  const JobSpec spec{.queue = *dispatcher.AddQueue(options), .inputs = inputs, .outputs = outputs};
  CallerRun run(dispatcher);
  LAGOON_CHECK(run.Prepare(spec).has_value());
  SleepingClient sleeping;
  const CallerOptions how{.works = way == kWorks,
                          .spin = std::chrono::milliseconds(way == kSpins ? 10 : 0)};
  std::vector<double> samples;
  for (auto _ : state) {
    if (pause > Nanoseconds(0)) std::this_thread::sleep_for(pause);
    const TimePoint begin = Now();
    if (way == kPostAndSleep) {
      sleeping.Run(dispatcher, spec);
    } else {
      LAGOON_CHECK(run.Run(kNoDeadline, how));
    }
    const Nanoseconds took = Now() - begin;
    samples.push_back(ToMicroseconds(took));
    state.SetIterationTime(std::chrono::duration<double>(took).count());
  }
  std::ranges::sort(samples);
  const auto at = [&](double part) {
    return samples[static_cast<std::size_t>(part * static_cast<double>(samples.size() - 1))];
  };
  state.counters["p50_us"] = at(0.5);
  state.counters["p99_us"] = at(0.99);
  constexpr const char* kWays[] = {"posts and sleeps", "sleeps", "spins", "works"};
  state.SetLabel(kWays[way]);
}
BENCHMARK(BM_TinyPlan)
    ->ArgNames({"way", "pause_us"})
    ->ArgsProduct({{kPostAndSleep, kSleeps, kSpins, kWorks}, {0, 1000}})
    ->UseManualTime()
    ->Iterations(2000)
    ->Repetitions(3);

}  // namespace
}  // namespace lagoon
