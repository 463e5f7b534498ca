// The cost of recording, for a block and for a kernel that a dispatcher submits. The kernel's body
// does nothing; compare `traced:0` with `traced:1`.

#include <benchmark/benchmark.h>

#include <latch>
#include <memory>

#include "base/check.h"
#include "device/cpu/cpu_device.h"
#include "policies/registry.h"
#include "sched/testing/fake_device.h"
#include "trace/recorder.h"

namespace lagoon {
namespace {

bool Nothing(const void*, std::uint32_t, BlockContext&) { return true; }

std::unique_ptr<Device> OneWorker() {
  auto device = CreateCpuDevice({.workers = 1});
  LAGOON_CHECK(device.has_value() && (*device)->Load({"nothing", Nothing}, {}).has_value());
  return *std::move(device);
}

// The time that recording adds to a block.
void BM_Block(benchmark::State& state) {
  const auto device = OneWorker();
  TraceRecorder recorder;
  recorder.Attach(*device);
  DeviceObserver* observer = &recorder;
  benchmark::DoNotOptimize(observer);
  const DeviceBlock block{.launch = LaunchId{1}};
  for (auto _ : state) {
    observer->OnPlaced(block);
    observer->OnEnded(block, TimePoint{}, true);
  }
}
BENCHMARK(BM_Block);

struct Client final : JobClient {
  void Finished(const JobResult&) override { done->count_down(); }
  std::latch* done = nullptr;
};

// Time of one kernel of one block in a job of a hundred, dispatcher included.
void BM_Kernel(benchmark::State& state) {
  constexpr std::uint32_t kKernels = 100;
  const auto device = OneWorker();
  TraceRecorder recorder;
  const bool traced = state.range(0) != 0;
  if (traced) recorder.Attach(*device);
  const auto instance = *Instance::Create(testing::ChainPlan(kKernels, 1), *device);
  Scheduler named = *MakeScheduler("lagoon");
  Dispatcher dispatcher(*device, named.config, std::move(named.policy),
                        traced ? &recorder : nullptr);
  QueueOptions options;
  options.name = "chain";
  options.instances = {instance.get()};
  const QueueId queue = *dispatcher.AddQueue(options);
  float x[4] = {}, y[4] = {};
  const void* inputs[] = {x};
  void* outputs[] = {y};
  for (auto _ : state) {
    std::latch done(1);
    Client client;
    client.done = &done;
    const TimePoint begin = Now();
    LAGOON_CHECK(dispatcher.Post({queue, kNoDeadline, inputs, outputs, &client}).has_value());
    done.wait();
    state.SetIterationTime(std::chrono::duration<double>(Now() - begin).count() / kKernels);
  }
}
// The time is that of one kernel, so that the benchmark must be given the number of iterations.
BENCHMARK(BM_Kernel)->Arg(0)->Arg(1)->ArgName("traced")->Iterations(200)->UseManualTime();

}  // namespace
}  // namespace lagoon
