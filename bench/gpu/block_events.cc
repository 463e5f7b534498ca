#include "bench/gpu/block_events.h"

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "bench/gpu/probe_args.cuh"
#include "bench/gpu/probe_program.h"
#include "bench/measure/evidence.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"

namespace lagoon::bench {
namespace {

constexpr Nanoseconds kEndsWithin = std::chrono::seconds(10);
constexpr LaunchId kOnly{1};

bool EmptyBody(const void* /*args*/, std::uint32_t /*block*/, BlockContext& /*context*/) {
  return true;
}

struct EventsCase {
  std::string name;
  std::uint32_t blocks, tell_every;
};

std::vector<EventsCase> EventsCases() {
  std::vector<EventsCase> cases;
  for (const std::uint32_t blocks : {16u, 160u}) {
    cases.push_back({fmt::format("b{}.none", blocks), blocks, 0});
    cases.push_back({fmt::format("b{}.often", blocks), blocks, 1});
    cases.push_back({fmt::format("b{}.every16", blocks), blocks, 16});
  }
  return cases;
}

struct EventsSamples {
  std::vector<double> kernel_us, seen_us;
  std::uint64_t events = 0;
};

// Reads the events of one launch at a time where a dispatcher does: on the thread that brings news,
// which in a CPU device is the worker that has just begun or ended a block. A host thread that
// sleeps would be woken by each report, and take a core from the workers.
class LaunchEvents final : public DeviceListener {
 public:
  explicit LaunchEvents(Device& device) : device_(device) { device.SetListener(this); }
  ~LaunchEvents() override { device_.SetListener(nullptr); }
  LaunchEvents(const LaunchEvents&) = delete;
  LaunchEvents& operator=(const LaunchEvents&) = delete;

  struct Seen {
    std::optional<TimePoint> placed = {}, complete = {};  // by the device's clock
    TimePoint seen = {};                                  // the host has the end
    std::uint64_t events = 0;
    bool retired = false, lost = false;
  };

  /// Submits the launch, and returns when it has retired, or 10 s later.
  Seen Run(const Launch& launch) {
    {
      const MutexLock lock(mutex_);
      seen_ = {};
      if (device_.Submit(launch) != SubmitResult::kOk) return {.lost = true};
      Poll();
    }
    ReadNews();
    const TimePoint end = Now() + kEndsWithin;
    const MutexLock lock(end_mutex_);
    while (!ended_ && Now() < end) ended_now_.WaitUntil(end_mutex_, end);
    return std::exchange(ended_, std::nullopt).value_or(Seen{});
  }

  void OnDeviceNews() override {
    news_.store(true);
    ReadNews();
  }

 private:
  // As in a dispatcher no thread waits for another: the one that has the lock also reads the news
  // that come meanwhile.
  void ReadNews() {
    while (news_.load()) {
      if (!mutex_.try_lock()) return;
      news_.store(false);
      Poll();
      mutex_.unlock();
    }
  }

  void Poll() REQUIRES(mutex_) {
    std::array<DeviceEvent, 32> events;
    for (std::size_t count = events.size(); count == events.size();) {
      count = device_.Poll(events);
      seen_.events += count;
      for (std::size_t i = 0; i < count; ++i) Note(events[i]);
    }
  }

  void Note(const DeviceEvent& event) REQUIRES(mutex_) {
    if (event.kind == DeviceEvent::Kind::kPlaced) seen_.placed = event.at;
    if (event.kind == DeviceEvent::Kind::kComplete) seen_.complete = event.at, seen_.seen = Now();
    seen_.lost = seen_.lost || event.kind == DeviceEvent::Kind::kLost;
    seen_.retired = seen_.retired || event.kind == DeviceEvent::Kind::kRetired;
    if (!seen_.retired && !seen_.lost) return;
    const MutexLock lock(end_mutex_);
    ended_ = seen_;
    ended_now_.NotifyAll();
  }

  Device& device_;
  // seq_cst: a thread that does not get the lock has set this where the holder looks next.
  std::atomic<bool> news_{false};
  Mutex mutex_;  // of the device's queue
  Seen seen_ GUARDED_BY(mutex_);
  Mutex end_mutex_;
  CondVar ended_now_;
  std::optional<Seen> ended_ GUARDED_BY(end_mutex_);
};

// A device with an empty kernel, which runs alone.
class EmptyKernel {
 public:
  explicit EmptyKernel(const BlockEventsOptions& options) : options_(options) {}

  Status Open() {
    LAGOON_ASSIGN_OR_RETURN(on_, OpenDevice(options_.device));
    Device& device = *on_.device;
    if (!device.info().tells_blocks) {
      return Fail(ErrorCode::kUnimplemented,
                  fmt::format("device '{}' does not report blocks", device.info().name));
    }
    image_ = {.program = options_.program == nullptr ? &cuda::ProbeProgram() : options_.program,
              .body = static_cast<std::uint32_t>(cuda::probe::Body::kSpin),
              .entry = static_cast<std::uint32_t>(cuda::ProbeEntry::kProbe),
              .args_bytes = sizeof(cuda::probe::SpinArgs)};
    LAGOON_ASSIGN_OR_RETURN(kernel_,
                            device.Load({.name = "empty", .body = EmptyBody, .cuda = &image_}, {}));
    events_.emplace(device);
    return {};
  }

  /// Launches the kernel, and waits until the launch has retired.
  Status Run(const EventsCase& which, EventsSamples& samples) {
    std::vector<lagoon::Progress::Word> words(lagoon::Progress::WordsFor(which.blocks));
    lagoon::Progress progress(which.blocks, words);
    progress.Reset();
    Launch launch;
    launch.kernel = kernel_;
    launch.args = &args_;
    launch.progress = &progress;
    launch.tell_every = which.tell_every;
    const TimePoint begin = Now();
    const LaunchEvents::Seen seen = events_->Run(launch.As(kOnly));
    if (!seen.retired || !seen.placed || !seen.complete) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("device '{}': an empty kernel {}", on_.device->info().name,
                              seen.lost ? "was lost or not taken" : "has not ended within 10 s"));
    }
    samples.events += seen.events;
    samples.kernel_us.push_back(ToMicroseconds(*seen.complete - *seen.placed));
    samples.seen_us.push_back(ToMicroseconds(seen.seen - begin));
    return {};
  }

 private:
  const BlockEventsOptions& options_;
  CudaImage image_;
  const cuda::probe::SpinArgs args_{};  // no pieces: the body ends at once
  ComputeDevice on_;
  KernelHandle kernel_{};
  std::optional<LaunchEvents> events_;  // destroyed before the device
};

}  // namespace

Status RunBlockEvents(const BlockEventsOptions& options, Report& report) {
  const std::vector<EventsCase> cases = EventsCases();
  EmptyKernel kernel(options);
  LAGOON_RETURN_IF_ERROR(kernel.Open());
  WindowsPlan plan{.groups = {"block-events"}, .windows = {}, .rounds = options.windows};
  for (const EventsCase& which : cases) plan.windows.push_back(which.name);
  plan.seed = options.seed;
  const int launches = (options.rounds + options.windows - 1) / options.windows;
  std::vector<std::vector<EventsSamples>> trials(cases.size());  // by case
  const auto measure = [&](const WindowPlace& place) -> Status {
    trials[place.window].resize(place.trial + 1);
    for (int i = 0; i < launches; ++i) {
      LAGOON_RETURN_IF_ERROR(kernel.Run(cases[place.window], trials[place.window][place.trial]));
    }
    return {};
  };
  HostProbe probe;
  LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
  Evidence evidence(report, options.seed);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto add = [&](const char* name, std::vector<double> EventsSamples::*samples) {
      std::vector<double> p90, all;
      for (const std::size_t trial : result.trials[0]) {
        const std::vector<double>& us = trials[i][trial].*samples;
        p90.push_back(Percentile(us, 90));
        all.insert(all.end(), us.begin(), us.end());
      }
      evidence.Add(fmt::format("{}_p90.{}", name, cases[i].name), p90);
      report.Metric(fmt::format("{}_p50.{}", name, cases[i].name), Median(all));
    };
    add("kernel_us", &EventsSamples::kernel_us);
    add("seen_us", &EventsSamples::seen_us);
    double events = 0, runs = 0;
    for (const std::size_t trial : result.trials[0]) {
      events += static_cast<double>(trials[i][trial].events);
      runs += static_cast<double>(trials[i][trial].seen_us.size());
    }
    report.Metric("events_per_launch." + cases[i].name, events / runs);
  }
  evidence.AddWindows(result.summary);
  evidence.Finish();
  return {};
}

}  // namespace lagoon::bench
