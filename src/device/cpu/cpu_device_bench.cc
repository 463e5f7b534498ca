// Costs of the CPU device itself: the gap between kernels, and the time from Raise() to the first
// real-time block. Two workers. Times are medians and percentiles over the samples of a run, in
// microseconds.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "base/check.h"
#include "device/cpu/cpu_device.h"

namespace lagoon {
namespace {

struct Record {
  explicit Record(std::uint32_t blocks)
      : words(Progress::WordsFor(blocks)), progress(blocks, words) {
    progress.Reset();
  }
  std::vector<std::atomic<std::uint64_t>> words;
  Progress progress;
};

// Runs for the time `work`, and checks its guards every 5 us.
struct WorkArgs {
  Nanoseconds work;
};
bool Work(const void* args, std::uint32_t, BlockContext& ctx) {
  const TimePoint end = Now() + static_cast<const WorkArgs*>(args)->work;
  while (Now() < end) {
    const TimePoint check = std::min(end, Now() + std::chrono::microseconds(5));
    while (Now() < check) {
    }
    if (ctx.ShouldLeave()) return false;
  }
  return true;
}

std::unique_ptr<Device> TwoWorkers() {
  auto device = CreateCpuDevice({.workers = 2});
  LAGOON_CHECK(device.has_value());
  return *std::move(device);
}

double Percentile(std::vector<double>& samples, double fraction) {
  if (samples.empty()) return 0;
  const auto at = samples.begin() +
                  static_cast<std::ptrdiff_t>(fraction * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), at, samples.end());
  return *at;
}

void Report(benchmark::State& state, std::vector<double>& samples) {
  state.counters["p50_us"] = Percentile(samples, 0.5);
  state.counters["p90_us"] = Percentile(samples, 0.9);
  state.counters["p99_us"] = Percentile(samples, 0.99);
}

// Waits until `launches` launches have retired and passes every event to `see`.
template <typename See>
void Drain(Device& device, std::size_t launches, See see) {
  std::array<DeviceEvent, 64> events;
  while (launches > 0) {
    const std::size_t count = device.Poll(events);
    for (std::size_t i = 0; i < count; ++i) {
      see(events[i]);
      if (events[i].kind == DeviceEvent::Kind::kRetired) --launches;
    }
    if (count == 0) device.Wait(Now() + std::chrono::seconds(1));
  }
}

// A chain of 100 kernels, all submitted at once: time from last commit to the successor's first
// block.
void BM_KernelGap(benchmark::State& state) {
  constexpr std::size_t kKernels = 100;
  const auto blocks = static_cast<std::uint32_t>(state.range(0));
  const WorkArgs args{std::chrono::microseconds(25)};
  const auto device = TwoWorkers();
  const KernelHandle kernel = *device->Load({"work", Work}, {});
  std::vector<std::unique_ptr<Record>> records;
  std::vector<Dep> deps;
  for (std::size_t i = 0; i < kKernels; ++i) {
    records.push_back(std::make_unique<Record>(blocks));
    deps.push_back({&records.back()->progress, blocks});
  }
  std::vector<double> gaps_us;
  for (auto _ : state) {
    for (const auto& record : records) record->progress.Reset();
    for (std::size_t i = 0; i < kKernels; ++i) {
      const Launch launch{.kernel = kernel,
                          .args = &args,
                          .progress = &records[i]->progress,
                          .deps = i == 0 ? std::span<const Dep>() : std::span(&deps[i - 1], 1)};
      LAGOON_CHECK(device->Submit(launch.As(LaunchId{i})) == SubmitResult::kOk);
    }
    std::array<TimePoint, kKernels> placed, complete;
    Drain(*device, kKernels, [&](const DeviceEvent& event) {
      if (event.kind == DeviceEvent::Kind::kPlaced) placed[Raw(event.launch)] = event.at;
      if (event.kind == DeviceEvent::Kind::kComplete) complete[Raw(event.launch)] = event.at;
    });
    for (std::size_t i = 1; i < kKernels; ++i) {
      gaps_us.push_back(ToMicroseconds(placed[i] - complete[i - 1]));
    }
  }
  Report(state, gaps_us);
}
BENCHMARK(BM_KernelGap)
    ->Arg(1)
    ->Arg(4)
    ->Arg(16)
    ->ArgName("blocks")
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// Both workers run best-effort blocks of 50 us; a real-time launch comes at a random moment.
void BM_Preemption(benchmark::State& state) {
  const WorkArgs best_effort{std::chrono::microseconds(50)};
  const WorkArgs real_time{std::chrono::microseconds(20)};
  const auto device = TwoWorkers();
  const KernelHandle kernel = *device->Load({"work", Work}, {});
  const GuardId guard = *device->CreateGuard();
  Record background(1 << 16), urgent(2);
  std::vector<double> first_block_us;
  std::uint32_t epoch = 0;
  for (auto _ : state) {
    background.progress.Reset();
    urgent.progress.Reset();
    Launch launch{.kernel = kernel, .args = &best_effort, .progress = &background.progress};
    launch.guards[0] = {device->GuardWord(guard), epoch};
    device->Submit(launch.As(LaunchId{1}, kUnordered, 1));
    // Sleeps, as a server's threads do: with two cores a spinning thread would take a worker's
    // core.
    std::this_thread::sleep_for(std::chrono::microseconds(300 + 37 * (epoch % 16)));

    const Launch first{.kernel = kernel, .args = &real_time, .progress = &urgent.progress};
    const TimePoint arrived = Now();
    device->Raise(guard, ++epoch);
    device->Submit(first.As(LaunchId{2}));
    Drain(*device, 2, [&](const DeviceEvent& event) {
      if (event.launch == LaunchId{2} && event.kind == DeviceEvent::Kind::kPlaced) {
        first_block_us.push_back(ToMicroseconds(event.at - arrived));
      }
    });
  }
  Report(state, first_block_us);
}
BENCHMARK(BM_Preemption)->Iterations(1000)->UseRealTime()->Unit(benchmark::kMicrosecond);

// The host's side: the cost of one Submit() behind a queue of `range` launches that wait for a
// dependency.
void BM_Submit(benchmark::State& state) {
  const WorkArgs args{Nanoseconds(0)};
  const auto device = TwoWorkers();
  const KernelHandle kernel = *device->Load({"work", Work}, {});
  const GuardId guard = *device->CreateGuard();
  Record never(1), record(1);
  const Dep dep{&never.progress, 1};
  Launch launch{.kernel = kernel, .args = &args, .progress = &record.progress, .deps = {&dep, 1}};
  std::uint32_t epoch = 0;
  const auto queued = static_cast<std::uint32_t>(state.range(0));
  launch.guards[0] = {device->GuardWord(guard), ~std::uint32_t{0} >> 2};
  for (std::uint32_t i = 0; i < queued; ++i) {
    device->Submit(launch.As(LaunchId{i}));
  }
  for (auto _ : state) {
    launch.guards[0].limit = epoch;
    device->Submit(launch.As(LaunchId{1u << 20}, kUnordered, 1));
    state.PauseTiming();
    device->Raise(guard, ++epoch);
    Drain(*device, 1, [](const DeviceEvent&) {});
    state.ResumeTiming();
  }
}
BENCHMARK(BM_Submit)->Arg(0)->Arg(64)->Arg(400)->ArgName("queued");

}  // namespace
}  // namespace lagoon
