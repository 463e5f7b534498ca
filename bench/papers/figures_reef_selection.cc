// Figures 26 and 27: the host's time for choosing kernels to pad with, and the time that padding
// costs real-time kernels.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "bench/measure/statistics.h"
#include "bench/papers/figures_reef.h"
#include "bench/sim/decision.h"
#include "bench/sim/sim_jobs.h"
#include "device/forwarding_device.h"

namespace lagoon::bench {
namespace {

using std::chrono::milliseconds;

constexpr std::array<std::string_view, 5> kWorkloads{"A", "B", "C", "D", "E"};

// Notes how long each real-time kernel took, from its first block to its last commit.
class KernelTimer final : public ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  SubmitResult Submit(const Launch& launch) override {
    constexpr Rank kBehindRealTime = Rank{1} << 63;
    const SubmitResult result = device_.Submit(launch);
    if (result == SubmitResult::kOk && launch.rank < kBehindRealTime) {
      running_[launch.id] = {launch.kernel, {}};
    }
    return result;
  }
  std::size_t Poll(std::span<DeviceEvent> events) override {
    const std::size_t count = device_.Poll(events);
    for (const DeviceEvent& event : events.first(count)) {
      const auto kernel = running_.find(event.launch);
      if (kernel == running_.end()) continue;
      if (event.kind == DeviceEvent::Kind::kPlaced) kernel->second.placed = event.at;
      if (event.kind == DeviceEvent::Kind::kComplete) {
        times_[kernel->second.kernel].push_back(ToMicroseconds(event.at - kernel->second.placed));
      }
      if (event.kind == DeviceEvent::Kind::kRetired) running_.erase(kernel);
    }
    return count;
  }

  /// By kernel, in microseconds.
  const std::map<KernelHandle, std::vector<double>>& times() const { return times_; }

 private:
  struct Running {
    KernelHandle kernel{};
    TimePoint placed;
  };
  std::map<LaunchId, Running> running_;
  std::map<KernelHandle, std::vector<double>> times_;
};

// The times of a workload's real-time kernels, with or without the best-effort clients.
Result<std::map<KernelHandle, std::vector<double>>> KernelTimes(const SimJobs& jobs,
                                                                bool best_effort,
                                                                Nanoseconds span) {
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel(jobs.device));
  LAGOON_ASSIGN_OR_RETURN(Scheduler reef, MakeScheduler("reef"));
  std::vector<SimStageQueue> queues = jobs.Queues();
  for (SimStageQueue& queue : queues) {
    if (!best_effort && queue.job_class == JobClass::kBestEffort) queue.model = nullptr;
  }
  KernelTimer* timer = nullptr;
  const auto wrap = [&](Device& simulated) {
    auto made = std::make_unique<KernelTimer>(simulated);
    timer = made.get();
    return made;
  };
  const SimAbort abort = AbortOf(reef.config);
  LAGOON_ASSIGN_OR_RETURN(
      SimStage stage, SimStage::Open({.gpu = gpu, .abort = abort}, std::move(reef), queues, wrap));
  stage.Run(jobs.clients, jobs.Window(span), Nanoseconds(0));
  return timer->times();
}

}  // namespace

Result<Figure> ReefFigure26(const FigureOptions& options) {
  const double seconds = std::max(0.1, 0.5 * options.effort);  // so long that there is padding
  Figure figure;
  FigurePanel panel{"Choice of a kernel to pad with, real time", "workload", "us, mean", {}};
  for (std::size_t i = 0; i < kWorkloads.size(); ++i) {
    const std::string workload(kWorkloads[i]);
    panel.groups.push_back(workload);
    for (const std::string scheduler : {"reef", "reef-mv", "lagoon"}) {
      LAGOON_ASSIGN_OR_RETURN(const PaddingChoices choices,
                              MeasurePaddingChoices("mi50", workload, scheduler, seconds));
      const std::string of = fmt::format("{}.{}", scheduler, workload);
      panel.Add(scheduler, static_cast<double>(i), choices.us);
      if (scheduler == "lagoon") {  // not the paper's
        figure.Find("padding_us_mean." + of, choices.us);
      } else {
        figure.CompareRange("padding_us_mean." + of, {0, i < 2 ? 0.4 : 1.2}, choices.us,
                            "REEF 6.5");
      }
      figure.Find("padding_candidates_mean." + of, choices.candidates);
    }
  }
  figure.panels.push_back(std::move(panel));
  return figure;
}

Result<Figure> ReefFigure27(const FigureOptions& options) {
  std::vector<double> overheads;  // us, of all real-time kernels of all workloads
  for (const std::string_view workload : kWorkloads) {
    LAGOON_ASSIGN_OR_RETURN(const SimJobs jobs, SimJobs::Disb("mi50", std::string(workload)));
    const Nanoseconds span = milliseconds(options.Scaled(1000));
    LAGOON_ASSIGN_OR_RETURN(const auto alone, KernelTimes(jobs, false, span));
    LAGOON_ASSIGN_OR_RETURN(const auto beside, KernelTimes(jobs, true, span));
    for (const auto& [kernel, times] : beside) {
      const auto found = alone.find(kernel);
      if (found == alone.end()) continue;  // the kernel did not run alone in so short a time
      const double expected = Mean(found->second);
      for (const double time : times) overheads.push_back(time - expected);
    }
  }
  if (overheads.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "no real-time kernel ran: a larger --effort is needed");
  }
  std::ranges::sort(overheads);
  const auto share_below = [&](double us) {
    const auto below = std::ranges::upper_bound(overheads, us) - overheads.begin();
    return static_cast<double>(below) / static_cast<double>(overheads.size());
  };
  Figure figure;
  FigurePanel panel{
      "Real-time kernels of DISB A to E, mi50", "longer than alone by, us", "share of kernels", {}};
  for (const double us : {0., 0.5, 1., 2., 3., 4., 6., 9., 12., 16., 20., 30., 50.}) {
    panel.Add("reef", us, share_below(us));
  }
  figure.Compare("share_not_slowed_down", 0.491, share_below(0.1), "REEF 6.5");
  figure.CompareRange("share_below_9_us", {0.9, 1}, share_below(9), "REEF 6.5");
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace lagoon::bench
