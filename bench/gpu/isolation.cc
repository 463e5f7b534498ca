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
#include "bench/statistics.h"

namespace lagoon::bench {
namespace {

constexpr LaunchId kRealTime{1}, kBestEffort{2};
constexpr Rank kBestEffortRank = Rank{1} << 63;
constexpr std::uint32_t kBestEffortWaves = 64;  // of blocks, until the device has run all of them
constexpr Nanoseconds kAnswerWithin = std::chrono::seconds(10);
constexpr Nanoseconds kLook = std::chrono::microseconds(50);
constexpr Nanoseconds kBaseline = std::chrono::milliseconds(500);

enum class Mode { kAlone, kPriority, kGuard, kAbort, kShare };
constexpr std::array<std::pair<Mode, const char*>, 5> kModes = {{{Mode::kAlone, "alone"},
                                                                 {Mode::kPriority, "priority"},
                                                                 {Mode::kGuard, "guard"},
                                                                 {Mode::kAbort, "abort"},
                                                                 {Mode::kShare, "share"}}};

// The same as probe::Spin, on a CPU.
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
  double best_effort_per_s = 0;  // blocks
};

// A launch of one kernel that is submitted again and again, under one record.
class Kernel {
 public:
  Kernel(LaunchId id, Rank rank, StreamId stream, KernelHandle kernel, std::uint32_t blocks,
         const cuda::probe::SpinArgs& args)
      : id_(id),
        rank_(rank),
        stream_(stream),
        args_(args),
        words_(lagoon::Progress::WordsFor(blocks)),
        progress_(blocks, words_) {
    progress_.Reset();
    segment_.kernel = kernel;
    segment_.args = &args_;
    segment_.progress = &progress_;
  }
  void Watch(const Guard& guard) { segment_.guards[0] = guard; }

  /// What is complete begins anew.
  Status Submit(Device& device) {
    if (progress_.Complete()) {
      blocks_before_ += progress_.blocks();
      progress_.Reset();
    }
    const SubmitResult result =
        device.Submit({.id = id_, .stream = stream_, .rank = rank_, .segments = {&segment_, 1}});
    if (result == SubmitResult::kOk) return {};
    return Fail(ErrorCode::kInternal,
                fmt::format("device '{}' takes no launch: it is {}", device.info().name,
                            result == SubmitResult::kLost ? "lost" : "full"));
  }
  std::uint64_t blocks_done() const { return blocks_before_ + progress_.done(); }

 private:
  const LaunchId id_;
  const Rank rank_;
  const StreamId stream_;
  const cuda::probe::SpinArgs args_;
  std::vector<lagoon::Progress::Word> words_;
  lagoon::Progress progress_;
  Segment segment_;
  std::uint64_t blocks_before_ = 0;
};

// One mode on a device of its own, as shares are not given back.
class Round {
 public:
  static Result<std::unique_ptr<Round>> Create(const IsolationOptions& options, Mode mode) {
    std::unique_ptr<Round> round(new Round(options, mode));
    LAGOON_RETURN_IF_ERROR(round->Prepare());
    return round;
  }

  Result<Samples> Measure() {
    Samples samples;
    std::uniform_int_distribution<int> pause_us(200, 500);
    const TimePoint begin = Now();
    const std::uint64_t before = best_effort_->blocks_done();
    for (int i = 0; i < options_.rounds; ++i) {
      if (mode_ != Mode::kAlone) LAGOON_RETURN_IF_ERROR(AwaitBestEffort());
      LAGOON_RETURN_IF_ERROR(Pump(Now() + std::chrono::microseconds(pause_us(random_)), kTime));
      LAGOON_RETURN_IF_ERROR(RealTime(samples));
    }
    samples.best_effort_per_s =
        static_cast<double>(best_effort_->blocks_done() - before) / Seconds(Now() - begin);
    return samples;
  }

  // Blocks of best-effort work a second, with nothing beside it.
  Result<double> BestEffortAlone() {
    LAGOON_RETURN_IF_ERROR(AwaitBestEffort());
    const TimePoint begin = Now();
    const std::uint64_t before = best_effort_->blocks_done();
    LAGOON_RETURN_IF_ERROR(Pump(begin + kBaseline, kTime));
    return static_cast<double>(best_effort_->blocks_done() - before) / Seconds(Now() - begin);
  }

  ~Round() {
    // The device goes first, and what it runs ends with the guard.
    if (best_effort_) device_.device->Raise(guard_, kStopped);
  }
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

 private:
  static constexpr std::uint32_t kStopped = 1u << 30;

  Round(const IsolationOptions& options, Mode mode)
      : options_(options), mode_(mode), random_(options.seed) {}
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
    StreamId real_time = kUnordered;
    StreamId best_effort = kUnordered;
    if (mode_ == Mode::kShare) {
      LAGOON_ASSIGN_OR_RETURN(real_time,
                              device.CreateStream({.name = "real-time", .units = quarter}));
      // As granules go, what is left may be a little less than three quarters.
      LAGOON_ASSIGN_OR_RETURN(best_effort,
                              device.CreateStream({.name = "best-effort", .units = units * 5 / 8}));
    }
    const auto args = [&](double block_us, bool look) {
      const double pieces = std::max(1.0, std::round(block_us / options_.piece_us));
      return cuda::probe::SpinArgs{static_cast<cuda::u64>(block_us / pieces * 1000),
                                   static_cast<cuda::u32>(pieces), look ? 1u : 0u};
    };
    real_time_.emplace(kRealTime, 0, real_time, kernel, quarter,
                       args(options_.real_time_block_us, false));
    best_effort_.emplace(kBestEffort, kBestEffortRank, best_effort, kernel,
                         units * device.Occupancy(kernel) * kBestEffortWaves,
                         args(options_.best_effort_block_us, mode_ == Mode::kAbort));
    return {};
  }

  Status SubmitBestEffort() {
    limit_ = epoch_;
    best_effort_->Watch({.word = device_.device->GuardWord(guard_), .limit = limit_});
    best_effort_in_flight_ = true;
    return best_effort_->Submit(*device_.device);
  }

  // What was asked to leave is back.
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

  // Reads events until `until`, or until that has come. Best-effort work goes on when nobody asks
  // it to leave any more.
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
      // Not for long: a kPlaced does not end it.
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
  std::mt19937 random_;
  CudaImage image_;
  std::optional<Kernel> real_time_, best_effort_;
  ComputeDevice device_;  // goes before what its launches name
  GuardId guard_{};
  std::uint32_t epoch_ = 0, limit_ = 0;  // of the guard, and what best-effort work was given
  bool real_time_in_flight_ = false, best_effort_in_flight_ = false, best_effort_runs_ = false;
  std::optional<TimePoint> placed_, complete_;
};

}  // namespace

Status RunIsolation(const IsolationOptions& options, Report& report) {
  double alone_per_s = 0;
  {
    LAGOON_ASSIGN_OR_RETURN(const auto round, Round::Create(options, Mode::kPriority));
    LAGOON_ASSIGN_OR_RETURN(alone_per_s, round->BestEffortAlone());
  }
  report.Metric("best_effort_blocks_per_s.alone", alone_per_s);
  nlohmann::json refused = nlohmann::json::object();
  Progress progress("isolation", static_cast<int>(kModes.size()));
  for (const auto& [mode, name] : kModes) {
    const std::string mode_name = name;
    Result<std::unique_ptr<Round>> round = Round::Create(options, mode);
    if (!round) {
      if (mode != Mode::kShare) return tl::unexpected(std::move(round).error());
      refused[mode_name] = round.error().message;
      progress.Step(mode_name + " is refused");
      continue;
    }
    LAGOON_ASSIGN_OR_RETURN(const Samples samples, (*round)->Measure());
    for (const double percent : {50.0, 99.0}) {
      report.Metric(fmt::format("isolation_placed_us_p{:g}.{}", percent, name),
                    Percentile(samples.placed_us, percent));
      report.Metric(fmt::format("isolation_complete_us_p{:g}.{}", percent, name),
                    Percentile(samples.complete_us, percent));
    }
    if (mode != Mode::kAlone) {
      report.Metric("isolation_best_effort_share." + mode_name,
                    samples.best_effort_per_s / alone_per_s);
    }
    progress.Step(mode_name);
  }
  report.Field("refused", std::move(refused));
  return {};
}

}  // namespace lagoon::bench
