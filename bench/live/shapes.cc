#include "bench/live/shapes.h"

#include <fmt/format.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "bench/client/bound_model.h"
#include "bench/client/core_requests.h"
#include "bench/client/temporary_repository.h"
#include "bench/measure/child.h"
#include "bench/measure/evidence.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"
#include "program/compile.h"
#include "serving/core/inference.h"

namespace lagoon::bench {
namespace {

constexpr int kSteps = 13;      // of heights and widths
constexpr int kTextSteps = 65;  // of lengths
constexpr int kStandaloneRuns = 30;

/// The shapes of request `number`. The first kSteps squared ones are different for images; the
/// first kTextSteps ones for texts.
GraphInputs ShapesOf(const OnnxModel& model, int number) {
  const int row = (number * 5 + kSteps / 2) % kSteps;
  const int column = (number / kSteps * 3 + number * 2 + kSteps / 2) % kSteps;
  const std::int64_t height = 128 + 32 * row, width = 128 + 32 * column;
  const std::int64_t length = 96 + (number * 19 + kTextSteps / 2) % kTextSteps;
  GraphInputs inputs = model.DefaultInputs();
  for (std::size_t i = 0; i < model.inputs().size(); ++i) {
    const DeclaredTensor& input = model.inputs()[i];
    const std::size_t rank = input.dims.size();
    for (std::size_t axis = 0; axis < rank; ++axis) {
      if (input.dims[axis] != -1 || (axis == 0 && rank > 1)) continue;
      const bool image = rank == 4 && axis >= 2;
      inputs.dims[i][axis] = !image ? length : axis == 2 ? height : width;
    }
  }
  return inputs;
}

std::string FileOf(const ShapesOptions& options, const std::string& model) {
  return (std::filesystem::path(options.files) / (model + ".onnx")).string();
}

// ---- Time to compile

Status MeasureCompile(const ShapesOptions& options, const std::string& name, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const ComputeDevice on, OpenDevice({.workers = 1}));
  CompileOptions compile;
  compile.model = name;
  compile.many_shapes = true;
  LAGOON_ASSIGN_OR_RETURN(const auto compiler,
                          ModelCompiler::Read(FileOf(options, name), *on.device, compile));
  std::vector<double> times_ms;
  std::vector<CompiledPart> kept;  // as a server keeps them
  for (int number = 0; number < options.shapes; ++number) {
    const GraphInputs inputs = ShapesOf(compiler->model(), number);
    const TimePoint begin = Now();
    LAGOON_ASSIGN_OR_RETURN(kept.emplace_back(), compiler->Compile(inputs));
    if (number > 0) times_ms.push_back(ToMilliseconds(Now() - begin));
  }
  report.Metric("new_shape_ms." + name, Median(times_ms));
  report.Metric("new_shape_ms_p90." + name, Percentile(times_ms, 90));
  return {};
}

// ---- Memory

double ResidentMib() {
  std::ifstream file("/proc/self/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

struct Memory {
  double first_mib = 0, all_mib = 0;
};

Result<Memory> MemoryHere(const ShapesOptions& options, const std::string& name) {
  LAGOON_ASSIGN_OR_RETURN(TemporaryRepository repository, TemporaryRepository::Link("", {}));
  LAGOON_RETURN_IF_ERROR(repository.AddFile(name, FileOf(options, name)));
  LAGOON_ASSIGN_OR_RETURN(const auto core, Serve(repository.path(), "reset", options.workers));
  LAGOON_ASSIGN_OR_RETURN(const auto model, OnnxModel::Read(FileOf(options, name)));
  Memory memory;
  for (int number = 0; number < options.shapes; ++number) {
    Answer answer = Ask(*core, RequestOf(*model, name, ShapesOf(*model, number)));
    if (!answer) return tl::unexpected(std::move(answer).error());
    (number == 0 ? memory.first_mib : memory.all_mib) = ResidentMib();
  }
  return memory;
}

Status MeasureMemory(const ShapesOptions& options, const std::string& name, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const Memory memory,
                          InChild<Memory>(name, [&] { return MemoryHere(options, name); }));
  report.Metric(fmt::format("memory_mib.{}.first", name), memory.first_mib);
  report.Metric(fmt::format("memory_mib.{}.all", name), memory.all_mib);
  report.Metric("memory_ratio." + name, memory.all_mib / memory.first_mib);
  return {};
}

// ---- Real-time requests beside changing shapes

/// Sends the detector's requests one after the other, each of a shape that is not among the last
/// ones, until it is stopped.
class ChangingShapes {
 public:
  ChangingShapes(Inference& core, const OnnxModel& model, std::string name)
      : core_(core), model_(model), name_(std::move(name)) {}

  void Start() {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        const Answer answer = Ask(core_, RequestOf(model_, name_, ShapesOf(model_, number_)));
        ++number_;
        answer ? ++answered_ : ++failed_;
        if (!answer) error_ = answer.error().message;
      }
    });
  }
  /// The number of answers since Start().
  Result<int> Stop() {
    thread_ = {};
    if (failed_ > 0) return Fail(ErrorCode::kInternal, fmt::format("'{}': {}", name_, error_));
    return std::exchange(answered_, 0);
  }

 private:
  Inference& core_;
  const OnnxModel& model_;
  const std::string name_;
  int number_ = 0, answered_ = 0, failed_ = 0;
  std::string error_;
  std::jthread thread_;
};

struct Trial {
  std::vector<double> alone_ms, contended_ms;
  double shapes_per_s = 0;
};

class RealTimeBenchmark {
 public:
  RealTimeBenchmark(const ShapesOptions& options, Report& report)
      : options_(options),
        report_(report),
        random_(options.seed),
        requests_((options.requests + options.windows - 1) / options.windows) {}

  Status Run(ProgressBar& progress) {
    LAGOON_ASSIGN_OR_RETURN(TemporaryRepository repository, TemporaryRepository::Link("", {}));
    LAGOON_RETURN_IF_ERROR(repository.AddFile(options_.real_time,
                                              ModelFile(options_.zoo, options_.real_time),
                                              "optimization { priority: PRIORITY_MAX }\n"));
    LAGOON_RETURN_IF_ERROR(
        repository.AddFile(options_.detector, FileOf(options_, options_.detector)));
    LAGOON_ASSIGN_OR_RETURN(real_time_,
                            OnnxModel::Read(ModelFile(options_.zoo, options_.real_time)));
    LAGOON_ASSIGN_OR_RETURN(detector_, OnnxModel::Read(FileOf(options_, options_.detector)));
    Evidence evidence(report_, options_.seed);
    for (const std::string& scheduler : options_.schedulers) {
      LAGOON_ASSIGN_OR_RETURN(core_, Serve(repository.path(), scheduler, options_.workers));
      LAGOON_RETURN_IF_ERROR(MeasureStandalone());
      LAGOON_RETURN_IF_ERROR(Measure(scheduler, evidence, progress));
      core_.reset();
    }
    evidence.Finish();
    return {};
  }

 private:
  InferRequest RealTimeRequest() const {
    return RequestOf(*real_time_, options_.real_time, real_time_->DefaultInputs());
  }

  Status MeasureStandalone() {
    std::vector<double> times_ms;
    for (int i = 0; i < kStandaloneRuns; ++i) {
      const TimePoint begin = Now();
      const Answer answer = Ask(*core_, RealTimeRequest());
      if (!answer) return tl::unexpected(answer.error());
      times_ms.push_back(ToMilliseconds(Now() - begin));
    }
    interval_ = std::chrono::duration_cast<Nanoseconds>(
        std::chrono::duration<double, std::milli>(Median(times_ms) / options_.load));
    return {};
  }

  /// Latencies in milliseconds, counted from the intended arrivals, of one window.
  Result<std::vector<double>> OpenLoop() {
    const InferRequest request = RealTimeRequest();
    std::vector<double> latencies(static_cast<std::size_t>(requests_), 0.0);
    std::atomic<int> left{requests_};
    std::atomic<int> failed{0};
    TimePoint arrival =
        Now() + interval_ + Nanoseconds(random_() % static_cast<std::uint64_t>(interval_.count()));
    for (double& latency : latencies) {
      std::this_thread::sleep_until(arrival);
      InferRequest one = request;
      one.arrival = Now();
      core_->Infer(std::move(one), [&latency, &left, &failed, arrival](const Answer& answer) {
        latency = ToMilliseconds(Now() - arrival);
        if (!answer) ++failed;
        left.fetch_sub(1);
        left.notify_all();
      });
      arrival += interval_;
    }
    for (int now = left.load(); now != 0; now = left.load()) left.wait(now);
    if (failed == 0) return latencies;
    return Fail(ErrorCode::kInternal,
                fmt::format("{} requests of '{}' failed", failed.load(), options_.real_time));
  }

  Status Measure(const std::string& scheduler, Evidence& evidence, ProgressBar& progress) {
    enum Window : std::size_t { kAlone, kBoth };
    WindowsPlan plan{.groups = {scheduler},
                     .windows = {"alone", "both"},
                     .rounds = options_.windows,
                     .seed = options_.seed};
    std::vector<Trial> trials;
    ChangingShapes stream(*core_, *detector_, options_.detector);
    const auto measure = [&](const WindowPlace& place) -> Status {
      if (trials.size() <= place.trial) trials.resize(place.trial + 1);
      Trial& trial = trials[place.trial];
      progress.Step(scheduler);
      if (place.window == kAlone) {
        LAGOON_ASSIGN_OR_RETURN(trial.alone_ms, OpenLoop());
        return {};
      }
      const TimePoint begin = Now();
      stream.Start();
      Result<std::vector<double>> latencies = OpenLoop();
      LAGOON_ASSIGN_OR_RETURN(const int answered, stream.Stop());
      if (!latencies) return tl::unexpected(std::move(latencies).error());
      trial.contended_ms = *std::move(latencies);
      trial.shapes_per_s = answered / std::chrono::duration<double>(Now() - begin).count();
      return {};
    };
    HostProbe probe;
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
    std::vector<const Trial*> counted;
    for (const std::size_t trial : result.trials[0]) counted.push_back(&trials[trial]);
    Write(scheduler, counted, result.Clean(0), evidence);
    evidence.AddWindows(result.summary);
    return {};
  }

  void Write(const std::string& scheduler, const std::vector<const Trial*>& trials, bool clean,
             Evidence& evidence) {
    std::vector<double> alone, contended, shapes;
    for (const Trial* trial : trials) {
      alone.insert(alone.end(), trial->alone_ms.begin(), trial->alone_ms.end());
      contended.insert(contended.end(), trial->contended_ms.begin(), trial->contended_ms.end());
      shapes.push_back(trial->shapes_per_s);
    }
    const bool enough = contended.size() >= kSamplesForP99 &&
                        trials.front()->contended_ms.size() >= kSamplesForWindowP99;
    for (const int percent : {50, enough ? 99 : 90}) {
      std::vector<double> ratios;
      for (const Trial* trial : trials) {
        ratios.push_back(Percentile(trial->contended_ms, percent) /
                         Percentile(trial->alone_ms, percent));
      }
      const std::string name =
          fmt::format("realtime_latency_normalized_p{}.{}", percent, scheduler);
      const Interval interval = evidence.Add(name, ratios);
      if (percent == 99) evidence.Target(name, interval, Bound::kAtMost, 1.10, clean);
      const std::string ms = fmt::format("realtime_latency_ms_p{}.{}", percent, scheduler);
      report_.Metric(ms + ".alone", Percentile(alone, percent));
      report_.Metric(ms + ".contended", Percentile(contended, percent));
    }
    evidence.Add("new_shapes_per_s." + scheduler, shapes);
  }

  const ShapesOptions& options_;
  Report& report_;
  std::mt19937 random_;
  const int requests_;  // real-time requests per window
  std::unique_ptr<OnnxModel> real_time_, detector_;
  std::unique_ptr<Inference> core_;
  Nanoseconds interval_{0};
};

}  // namespace

Status RunShapes(const ShapesOptions& options, Report& report) {
  const std::size_t steps =
      2 * options.models.size() +
      2 * options.schedulers.size() * static_cast<std::size_t>(options.windows);
  ProgressBar progress("bench shapes", static_cast<int>(steps));
  // First, as it forks.
  for (const std::string& name : options.models) {
    progress.Step("memory of " + name);
    const Status measured = MeasureMemory(options, name, report);
    if (!measured) return Annotate(name, measured.error());
  }
  for (const std::string& name : options.models) {
    progress.Step("shapes of " + name);
    const Status measured = MeasureCompile(options, name, report);
    if (!measured) return Annotate(name, measured.error());
  }
  if (options.schedulers.empty()) return {};
  return RealTimeBenchmark(options, report).Run(progress);
}

}  // namespace lagoon::bench
