// What recording costs: a block, and a kernel that a dispatcher submits. Bodies do nothing, so that
// all of the time is ours; `traced:0` and `traced:1` are to be compared.

#include <benchmark/benchmark.h>

#include <latch>
#include <memory>
#include <vector>

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

// Time of one block of a kernel of many.
void BM_Block(benchmark::State& state) {
  constexpr std::uint32_t kBlocks = 1 << 16;
  const auto device = OneWorker();
  TraceRecorder recorder;
  if (state.range(0) != 0) recorder.Attach(*device);
  std::vector<std::atomic<std::uint64_t>> words(Progress::WordsFor(kBlocks));
  Progress progress(kBlocks, words);
  const Segment segment{.kernel = KernelHandle{}, .progress = &progress};
  for (auto _ : state) {
    progress.Reset();
    const TimePoint begin = Now();
    device->Submit({LaunchId{1}, kUnordered, 0, {&segment, 1}});
    while (!progress.Complete()) device->Wait(Now() + std::chrono::seconds(1));
    state.SetIterationTime(std::chrono::duration<double>(Now() - begin).count() / kBlocks);
    DeviceEvent event;
    for (bool retired = false; !retired;) {
      retired = device->Poll({&event, 1}) == 1 && event.kind == DeviceEvent::Kind::kRetired;
    }
  }
}
BENCHMARK(BM_Block)->Arg(0)->Arg(1)->ArgName("traced")->UseManualTime();

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
BENCHMARK(BM_Kernel)->Arg(0)->Arg(1)->ArgName("traced")->UseManualTime();

}  // namespace
}  // namespace lagoon
