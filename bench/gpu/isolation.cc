#include "bench/gpu/isolation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bench/gpu/probe_args.cuh"
#include "bench/gpu/probe_program.h"
#include "bench/gpu/raw_gpu.h"
#include "bench/measure/evidence.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"

namespace lagoon::bench {
namespace {

constexpr LaunchId kRealTime{1}, kBestEffort{2};
constexpr Rank kBestEffortRank = Rank{1} << 63;
constexpr std::uint32_t kBestEffortWaves = 64;  // blocks of the kernel, in fillings of the device
constexpr Nanoseconds kAnswerWithin = std::chrono::seconds(10);
constexpr Nanoseconds kLook = std::chrono::microseconds(50);
constexpr Nanoseconds kBaseline = std::chrono::milliseconds(500);

enum class Mode { kAlone, kPriority, kGuard, kAbort, kShare };
constexpr std::array<std::pair<Mode, const char*>, 5> kModes = {{{Mode::kAlone, "alone"},
                                                                 {Mode::kPriority, "priority"},
                                                                 {Mode::kGuard, "guard"},
                                                                 {Mode::kAbort, "abort"},
                                                                 {Mode::kShare, "share"}}};

// probe::Spin for a CPU.
bool SpinBody(const void* args, std::uint32_t, BlockContext& context) {
  const auto& spin = *static_cast<const cuda::probe::SpinArgs*>(args);
  for (std::uint32_t i = 0; i < spin.pieces; ++i) {
    if (spin.look != 0 && context.ShouldLeave()) return false;
    const TimePoint end = Now() + Nanoseconds(spin.piece_ns);
    while (Now() < end) {
    }
  }
  return true;
}

struct Samples {
  std::vector<double> placed_us, complete_us;
  double best_effort_per_s = 0;  // blocks a second
};

// A launch of one kernel that is submitted again and again with the same progress record.
class Kernel {
 public:
  Kernel(LaunchId id, Rank rank, ShareId share, KernelHandle kernel, std::uint32_t blocks,
         const cuda::probe::SpinArgs& args)
      : id_(id),
        rank_(rank),
        args_(args),
        words_(lagoon::Progress::WordsFor(blocks)),
        progress_(blocks, words_) {
    progress_.Reset();
    launch_.kernel = kernel;
    launch_.share = share;
    launch_.args = &args_;
    launch_.progress = &progress_;
  }
  void Watch(const Guard& guard) { launch_.guards[0] = guard; }

  /// Resumes an incomplete launch. A complete one begins anew.
  Status Submit(Device& device) {
    if (progress_.Complete()) {
      blocks_before_ += progress_.blocks();
      progress_.Reset();
    }
    const SubmitResult result = device.Submit(launch_.As(id_, kUnordered, rank_));
    if (result == SubmitResult::kOk) return {};
    return Fail(ErrorCode::kInternal,
                fmt::format("device '{}' takes no launch: it is {}", device.info().name,
                            result == SubmitResult::kLost ? "lost" : "full"));
  }
  std::uint64_t blocks_done() const { return blocks_before_ + progress_.done(); }

 private:
  const LaunchId id_;
  const Rank rank_;
  const cuda::probe::SpinArgs args_;
  std::vector<lagoon::Progress::Word> words_;
  lagoon::Progress progress_;
  Launch launch_;
  std::uint64_t blocks_before_ = 0;
};

// One mode on a new device, as a device does not take back the units of a share.
class Round {
 public:
  static Result<std::unique_ptr<Round>> Create(const IsolationOptions& options, Mode mode,
                                               std::uint32_t seed) {
    std::unique_ptr<Round> round(new Round(options, mode, seed));
    LAGOON_RETURN_IF_ERROR(round->Prepare());
    return round;
  }

  Status Measure(int launches, Samples& samples) {
    std::uniform_int_distribution<int> pause_us(200, 500);
    const TimePoint begin = Now();
    const std::uint64_t before = best_effort_->blocks_done();
    for (int i = 0; i < launches; ++i) {
      if (mode_ != Mode::kAlone) LAGOON_RETURN_IF_ERROR(AwaitBestEffort());
      LAGOON_RETURN_IF_ERROR(Pump(Now() + std::chrono::microseconds(pause_us(random_)), kTime));
      LAGOON_RETURN_IF_ERROR(RealTime(samples));
    }
    samples.best_effort_per_s =
        static_cast<double>(best_effort_->blocks_done() - before) / Seconds(Now() - begin);
    return {};
  }

  // Blocks of best-effort work a second, without real-time work.
  Result<double> BestEffortAlone() {
    LAGOON_RETURN_IF_ERROR(AwaitBestEffort());
    const TimePoint begin = Now();
    const std::uint64_t before = best_effort_->blocks_done();
    LAGOON_RETURN_IF_ERROR(Pump(begin + kBaseline, kTime));
    return static_cast<double>(best_effort_->blocks_done() - before) / Seconds(Now() - begin);
  }

  /// Number of best-effort blocks that the device holds at once. The more there are, the sooner one
  /// of them ends.
  double places() const { return places_; }

  ~Round() {
    // Ends the best-effort launch, for which the device's destructor would wait.
    if (best_effort_) device_.device->Raise(guard_, kStopped);
  }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

 private:
  static constexpr std::uint32_t kStopped = 1u << 30;

  Round(const IsolationOptions& options, Mode mode, std::uint32_t seed)
      : options_(options), mode_(mode), random_(seed) {}
  static double Seconds(Nanoseconds duration) {
    return std::chrono::duration<double>(duration).count();
  }

  Status Prepare() {
    LAGOON_ASSIGN_OR_RETURN(device_, OpenDevice(options_.device));
    Device& device = *device_.device;
    image_ = {.program = options_.program == nullptr ? &cuda::ProbeProgram() : options_.program,
              .body = static_cast<std::uint32_t>(cuda::probe::Body::kSpin),
              .entry = static_cast<std::uint32_t>(cuda::ProbeEntry::kProbe),
              .args_bytes = sizeof(cuda::probe::SpinArgs)};
    LAGOON_ASSIGN_OR_RETURN(const KernelHandle kernel,
                            device.Load({.name = "spin", .body = SpinBody, .cuda = &image_}, {}));
    LAGOON_ASSIGN_OR_RETURN(guard_, device.CreateGuard());
    const std::uint32_t units = device.info().units;
    const std::uint32_t quarter = std::max(1u, units / 4);
    ShareId real_time = kAllUnits;
    ShareId best_effort = kAllUnits;
    if (mode_ == Mode::kShare) {
      const std::uint32_t granule = std::max(1u, device.info().share_granule);
      const std::uint32_t mine = (quarter + granule - 1) / granule * granule;
      LAGOON_ASSIGN_OR_RETURN(real_time, device.CreateShare("real-time", {0, mine}));
      LAGOON_ASSIGN_OR_RETURN(
          best_effort, device.CreateShare("best-effort", {mine, units - std::min(mine, units)}));
    }
    const auto args = [&](double block_us, bool look) {
      const double pieces = std::max(1.0, std::round(block_us / options_.piece_us));
      return cuda::probe::SpinArgs{static_cast<cuda::u64>(block_us / pieces * 1000),
                                   static_cast<cuda::u32>(pieces), look ? 1u : 0u};
    };
    real_time_.emplace(kRealTime, 0, real_time, kernel, quarter,
                       args(options_.real_time_block_us, false));
    const std::uint32_t places = units * device.Occupancy(kernel);
    places_ = places;
    best_effort_.emplace(kBestEffort, kBestEffortRank, best_effort, kernel,
                         places * kBestEffortWaves,
                         args(options_.best_effort_block_us, mode_ == Mode::kAbort));
    return {};
  }

  Status SubmitBestEffort() {
    limit_ = epoch_;
    best_effort_->Watch({.word = device_.device->GuardWord(guard_), .limit = limit_});
    best_effort_in_flight_ = true;
    return best_effort_->Submit(*device_.device);
  }

  // Waits until best-effort work runs again.
  Status AwaitBestEffort() {
    LAGOON_RETURN_IF_ERROR(Pump(Now() + kAnswerWithin, kBestEffortRuns));
    return best_effort_runs_ ? Status() : Late("best-effort work does not begin");
  }

  Status RealTime(Samples& samples) {
    Device& device = *device_.device;
    const bool revokes = mode_ == Mode::kGuard || mode_ == Mode::kAbort;
    const TimePoint begin = Now();
    if (revokes) {
      best_effort_runs_ = false;
      device.Raise(guard_, ++epoch_);
    }
    LAGOON_RETURN_IF_ERROR(real_time_->Submit(device));
    placed_.reset();
    complete_.reset();
    real_time_in_flight_ = true;
    LAGOON_RETURN_IF_ERROR(Pump(begin + kAnswerWithin, kRealTimeIsOver));
    if (!placed_ || !complete_ || real_time_in_flight_) return Late("real-time work is not done");
    samples.placed_us.push_back(ToMicroseconds(*placed_ - begin));
    samples.complete_us.push_back(ToMicroseconds(*complete_ - begin));
    return {};
  }

  Status Late(const char* what) const {
    return Fail(ErrorCode::kDeadlineExceeded,
                fmt::format("device '{}': {} within {} s", options_.device.name, what,
                            Seconds(kAnswerWithin)));
  }

  // Reads events until `until`, or until `event` has come (kTime: never). Submits best-effort work
  // again when no launch is in flight.
  enum Event { kTime, kRealTimeIsOver, kBestEffortRuns };
  Status Pump(TimePoint until, Event event) {
    Device& device = *device_.device;
    for (;;) {
      std::array<DeviceEvent, 16> events;
      const std::size_t count = device.Poll(events);
      for (std::size_t i = 0; i < count; ++i) LAGOON_RETURN_IF_ERROR(OnEvent(events[i]));
      if (event == kRealTimeIsOver && !real_time_in_flight_) return {};
      if (event == kBestEffortRuns && best_effort_runs_) return {};
      if (mode_ != Mode::kAlone && !real_time_in_flight_ && !best_effort_in_flight_) {
        LAGOON_RETURN_IF_ERROR(SubmitBestEffort());
      }
      const TimePoint now = Now();
      if (now >= until) return {};
      // Waits only kLook at a time: a kPlaced does not end Wait().
      if (count == 0) device.Wait(std::min(until, now + kLook));
    }
  }

  Status OnEvent(const DeviceEvent& event) {
    if (event.kind == DeviceEvent::Kind::kLost) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("device '{}' is lost", device_.device->info().name));
    }
    const bool retired = event.kind == DeviceEvent::Kind::kRetired;
    const bool placed = event.kind == DeviceEvent::Kind::kPlaced;
    if (event.launch == kBestEffort) {
      best_effort_runs_ = (placed && limit_ == epoch_) || (best_effort_runs_ && !retired);
      best_effort_in_flight_ = best_effort_in_flight_ && !retired;
    } else if (retired) {
      real_time_in_flight_ = false;
    } else {
      (placed ? placed_ : complete_) = event.at;
    }
    return {};
  }

  const IsolationOptions options_;
  const Mode mode_;
  double places_ = 0;
  std::mt19937 random_;
  CudaImage image_;
  std::optional<Kernel> real_time_, best_effort_;
  ComputeDevice device_;  // is destroyed before the kernels and arguments that its launches use
  GuardId guard_{};
  std::uint32_t epoch_ = 0, limit_ = 0;  // the guard's value; the launch's limit
  bool real_time_in_flight_ = false, best_effort_in_flight_ = false, best_effort_runs_ = false;
  std::optional<TimePoint> placed_, complete_;
};

// The results of one trial: of each measured mode, and of best-effort work alone.
struct Trial {
  std::array<Samples, kModes.size()> modes;
  double best_effort_alone_per_s = 0;
};

class IsolationBenchmark {
 public:
  IsolationBenchmark(const IsolationOptions& options, Report& report)
      : options_(options), report_(report) {}

  Status Run() {
    // Each window has a device of its own. While another user keeps the GPU's context, it is not
    // made anew for each, which takes a second.
    std::unique_ptr<RawGpu> keeps_context;
    if (options_.device.name.starts_with("cuda:")) {
      LAGOON_ASSIGN_OR_RETURN(keeps_context, RawGpu::Open(options_.device));
    }
    LAGOON_RETURN_IF_ERROR(FindModes());
    WindowsPlan plan{.groups = {"isolation"},
                     .windows = {"best-effort alone"},
                     .rounds = options_.windows,
                     .seed = options_.seed};
    for (const std::size_t mode : modes_) plan.windows.emplace_back(kModes[mode].second);
    ProgressBar progress("isolation", static_cast<int>(plan.windows.size()) * plan.rounds);
    const auto measure = [&](const WindowPlace& place) -> Status {
      if (trials_.size() <= place.trial) trials_.emplace_back();
      progress.Step(plan.windows[place.window]);
      return Measure(place.window, static_cast<std::uint32_t>(place.trial), trials_[place.trial]);
    };
    HostProbe probe;
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
    Evidence evidence(report_, options_.seed);
    Write(result.trials[0], evidence);
    evidence.AddWindows(result.summary);
    evidence.Finish();
    return {};
  }

 private:
  // Finds the modes that the device does not refuse.
  Status FindModes() {
    nlohmann::json refused = nlohmann::json::object();
    for (std::size_t i = 0; i < kModes.size(); ++i) {
      const auto& [mode, name] = kModes[i];
      const Result<std::unique_ptr<Round>> round = Round::Create(options_, mode, options_.seed);
      if (round) {
        modes_.push_back(i);
        report_.Metric("isolation_best_effort_places", (*round)->places());
      } else if (mode == Mode::kShare) {
        refused[name] = round.error().message;
      } else {
        return tl::unexpected(round.error());
      }
    }
    report_.Field("refused", std::move(refused));
    return {};
  }

  // Window 0 is best-effort work alone; the modes follow.
  Status Measure(std::size_t window, std::uint32_t trial, Trial& seen) const {
    const std::size_t mode = window == 0 ? 0 : modes_[window - 1];
    const Mode which = window == 0 ? Mode::kPriority : kModes[mode].first;
    LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Round> round,
                            Round::Create(options_, which, options_.seed + trial));
    if (window == 0) {
      LAGOON_ASSIGN_OR_RETURN(seen.best_effort_alone_per_s, round->BestEffortAlone());
      return {};
    }
    const int launches = (options_.rounds + options_.windows - 1) / options_.windows;
    return round->Measure(launches, seen.modes[mode]);
  }

  void Write(const std::vector<std::size_t>& trials, Evidence& evidence) const {
    std::vector<double> alone;
    for (const std::size_t trial : trials) alone.push_back(trials_[trial].best_effort_alone_per_s);
    evidence.Add("best_effort_blocks_per_s.alone", alone);
    for (const std::size_t mode : modes_) {
      const std::string name = kModes[mode].second;
      for (const int percent : {50, 99}) {
        WriteTimes(
            fmt::format("isolation_placed_us_p{}.{}", percent, name), trials, percent,
            [&](const Trial& trial) { return trial.modes[mode].placed_us; }, evidence);
        WriteTimes(
            fmt::format("isolation_complete_us_p{}.{}", percent, name), trials, percent,
            [&](const Trial& trial) { return trial.modes[mode].complete_us; }, evidence);
      }
      if (kModes[mode].first == Mode::kAlone) continue;
      std::vector<double> shares;
      for (const std::size_t i : trials) {
        shares.push_back(trials_[i].modes[mode].best_effort_per_s /
                         trials_[i].best_effort_alone_per_s);
      }
      evidence.Add("isolation_best_effort_share." + name, shares);
    }
  }

  // Reports a percentile over all launches, with the interval of the windows' percentiles.
  template <typename Read>
  void WriteTimes(const std::string& name, const std::vector<std::size_t>& trials, int percent,
                  Read read, Evidence& evidence) const {
    std::vector<double> all, by_window;
    for (const std::size_t trial : trials) {
      const std::vector<double> us = read(trials_[trial]);
      all.insert(all.end(), us.begin(), us.end());
      by_window.push_back(Percentile(us, percent));
    }
    evidence.Add(name, by_window);
    report_.Metric(name, Percentile(all, percent));
  }

  const IsolationOptions& options_;
  Report& report_;
  std::vector<std::size_t> modes_;  // indices in kModes
  std::vector<Trial> trials_;
};

}  // namespace

Status RunIsolation(const IsolationOptions& options, Report& report) {
  return IsolationBenchmark(options, report).Run();
}

}  // namespace lagoon::bench
