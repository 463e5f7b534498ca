#include "bench/gpu/block_events.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

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
    return {};
  }

  /// Launches the kernel, and waits until the launch has retired.
  Status Run(const EventsCase& which, EventsSamples& samples) {
    Device& device = *on_.device;
    std::vector<lagoon::Progress::Word> words(lagoon::Progress::WordsFor(which.blocks));
    lagoon::Progress progress(which.blocks, words);
    progress.Reset();
    Launch launch;
    launch.kernel = kernel_;
    launch.args = &args_;
    launch.progress = &progress;
    launch.tell_every = which.tell_every;
    const TimePoint begin = Now();
    if (device.Submit(launch.As(kOnly)) != SubmitResult::kOk) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("device '{}' takes no launch", device.info().name));
    }
    std::optional<TimePoint> placed, complete, seen;
    for (bool retired = false; !retired;) {
      std::array<DeviceEvent, 32> events;
      const std::size_t count = device.Poll(events);
      samples.events += count;
      for (std::size_t i = 0; i < count; ++i) {
        if (events[i].kind == DeviceEvent::Kind::kLost) {
          return Fail(ErrorCode::kInternal, fmt::format("device '{}' is lost", device.info().name));
        }
        if (events[i].kind == DeviceEvent::Kind::kPlaced) placed = events[i].at;
        if (events[i].kind == DeviceEvent::Kind::kComplete) complete = events[i].at, seen = Now();
        retired = retired || events[i].kind == DeviceEvent::Kind::kRetired;
      }
      if (!retired && Now() > begin + kEndsWithin) {
        return Fail(ErrorCode::kDeadlineExceeded,
                    fmt::format("device '{}': an empty kernel has not ended within 10 s",
                                device.info().name));
      }
      if (count == 0) device.Wait(Now() + std::chrono::milliseconds(1));
    }
    if (!placed || !complete) {
      return Fail(ErrorCode::kInternal, "a kernel has retired without a begin and an end");
    }
    samples.kernel_us.push_back(ToMicroseconds(*complete - *placed));
    samples.seen_us.push_back(ToMicroseconds(*seen - begin));
    return {};
  }

 private:
  const BlockEventsOptions& options_;
  CudaImage image_;
  const cuda::probe::SpinArgs args_{};  // no pieces: the body ends at once
  ComputeDevice on_;
  KernelHandle kernel_{};
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
