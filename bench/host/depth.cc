#include "bench/host/depth.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <memory>
#include <thread>

#include "base/check.h"
#include "bench/host/spin_chain.h"
#include "bench/measure/evidence.h"
#include "bench/measure/seconds.h"
#include "bench/measure/windows.h"
#include "device/cpu/cpu_device.h"
#include "plan/instance.h"
#include "policies/registry.h"
#include "sched/dispatcher.h"

namespace lagoon::bench {
namespace {

constexpr std::uint32_t kKernels = 256;  // of the job

double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Posts a job again and again until Stop().
class ChainClient final : public JobClient {
 public:
  ChainClient(Dispatcher& dispatcher, QueueId queue) : dispatcher_(dispatcher), queue_(queue) {}

  void Post() {
    const void* const inputs[] = {x_};
    void* const outputs[] = {y_};
    // A queue with one client is never full.
    LAGOON_CHECK(dispatcher_.Post({queue_, kNoDeadline, inputs, outputs, this}).has_value());
  }
  /// Returns when the job in flight has ended.
  void Stop() {
    stopping_.store(true);
    ended_.wait(false);
  }
  std::uint64_t jobs() const { return jobs_.load(); }

  void Finished(const JobResult& /*result*/) override {
    jobs_.fetch_add(1);
    if (!stopping_.load()) return Post();
    ended_.store(true);
    ended_.notify_all();
  }

 private:
  Dispatcher& dispatcher_;
  const QueueId queue_;
  std::atomic<std::uint64_t> jobs_{0};
  std::atomic<bool> stopping_{false}, ended_{false};
  std::byte x_[kSpinTensorBytes] = {}, y_[kSpinTensorBytes] = {};
};

struct DepthTrial {
  double fraction = 0, us_per_kernel = 0, gap_us = 0;
};

Result<DepthTrial> MeasureDepth(const DepthOptions& options, std::uint32_t depth) {
  std::atomic<std::int64_t> blocks_ns{0};
  LAGOON_ASSIGN_OR_RETURN(const auto device, CreateCpuDevice({.workers = options.workers}));
  LAGOON_ASSIGN_OR_RETURN(const KernelHandle kernel, LoadSpin(*device));
  const Nanoseconds time(static_cast<std::int64_t>(options.kernel_us * 1e3));
  LAGOON_ASSIGN_OR_RETURN(const auto instance,
                          Instance::Create(SpinChain(kernel, kKernels, time, &blocks_ns), *device));
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler("reset"));
  scheduler.config.depth = depth;  // beyond the registry's limit
  Dispatcher dispatcher(*device, scheduler.config, std::move(scheduler.policy));
  QueueOptions queue;
  queue.name = "chain";
  queue.instances = {instance.get()};
  LAGOON_ASSIGN_OR_RETURN(const QueueId id, dispatcher.AddQueue(std::move(queue)));
  ChainClient client(dispatcher, id);
  const TimePoint begin = Now();
  const double cpu = ProcessCpuSeconds();
  client.Post();
  std::this_thread::sleep_until(begin + FromSeconds(options.window_seconds));
  client.Stop();
  const double seconds = std::chrono::duration<double>(Now() - begin).count();
  const double host = ProcessCpuSeconds() - cpu - static_cast<double>(blocks_ns.load()) / 1e9;
  const double kernels = static_cast<double>(client.jobs() * kKernels);
  return DepthTrial{host / seconds, host / kernels * 1e6,
                    seconds / kernels * 1e6 - options.kernel_us};
}

}  // namespace

Status RunDepth(const DepthOptions& options, Report& report) {
  WindowsPlan plan{.groups = {"depth"}, .windows = {}, .rounds = options.windows};
  for (const std::uint32_t depth : options.depths) {
    plan.windows.push_back(fmt::format("depth{}", depth));
  }
  plan.seed = options.seed;
  ProgressBar progress("bench depth", static_cast<int>(options.depths.size()) * options.windows);
  std::vector<std::vector<DepthTrial>> trials(options.depths.size());  // by depth
  const auto measure = [&](const WindowPlace& place) -> Status {
    trials[place.window].resize(place.trial + 1);
    LAGOON_ASSIGN_OR_RETURN(trials[place.window][place.trial],
                            MeasureDepth(options, options.depths[place.window]));
    progress.Step(plan.windows[place.window]);
    return {};
  };
  HostProbe probe;
  LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
  Evidence evidence(report, options.seed);
  for (std::size_t i = 0; i < options.depths.size(); ++i) {
    const auto add = [&](const char* name, double DepthTrial::*value) {
      std::vector<double> values;
      for (const std::size_t trial : result.trials[0]) values.push_back(trials[i][trial].*value);
      evidence.Add(fmt::format("{}.{}", name, plan.windows[i]), values);
    };
    add("host_cpu_fraction", &DepthTrial::fraction);
    add("host_us_per_kernel", &DepthTrial::us_per_kernel);
    add("kernel_gap_us", &DepthTrial::gap_us);
  }
  evidence.AddWindows(result.summary);
  evidence.Finish();
  return {};
}

}  // namespace lagoon::bench
