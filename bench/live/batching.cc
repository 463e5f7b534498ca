#include "bench/live/batching.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include "base/log.h"
#include "bench/client/bound_model.h"
#include "bench/client/core_requests.h"
#include "bench/client/temporary_repository.h"
#include "bench/live/batch_steps.h"
#include "bench/live/giving_up.h"
#include "bench/measure/evidence.h"
#include "bench/measure/seconds.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"

namespace lagoon::bench {
namespace {

constexpr const char* kSides[] = {"batched", "single"};
constexpr const char* kChannelMeans = "channel_means";
constexpr int kAloneRuns = 30;
constexpr int kAloneRounds = 30;  // of requests one at a time, which are short
constexpr double kGivingUpLoad = 2;
constexpr int kAtOnce = 4;  // requests in flight while the capacity is measured

std::string Config(std::int64_t most_rows) {
  return fmt::format("max_batch_size: {}\ndynamic_batching {{ }}\n", most_rows);
}

std::string NameOf(const std::string& model, std::size_t side) {
  return fmt::format("{}_{}", model, kSides[side]);
}

// What happened to the requests of one window.
struct Window {
  double seconds = 0;               // from the first arrival to the last answer
  std::vector<double> answered_ms;  // latencies
  std::vector<double> refused_ms;   // from the call to the refusal
  int expired = 0;
  double rows_per_batch = 0;
};

struct Sent {
  TimePoint arrival, asked, ended;
  ErrorCode code = ErrorCode::kInternal;
  bool answered = false;
};

class ModelBenchmark {
 public:
  ModelBenchmark(const BatchingOptions& options, std::string model, Report& report)
      : options_(options), model_(std::move(model)), report_(report) {}

  Status Run(Evidence& evidence, ProgressBar& progress) {
    LAGOON_ASSIGN_OR_RETURN(TemporaryRepository repository, TemporaryRepository::Link("", {}));
    const std::string file = ModelFile(options_.zoo, model_);
    LAGOON_RETURN_IF_ERROR(repository.AddFile(NameOf(model_, 0), file, Config(options_.most_rows)));
    LAGOON_RETURN_IF_ERROR(repository.AddFile(NameOf(model_, 1), file));
    LAGOON_ASSIGN_OR_RETURN(onnx_, OnnxModel::Read(file));
    LAGOON_ASSIGN_OR_RETURN(core_, Serve(repository.path(), options_.scheduler, options_.workers));
    LAGOON_RETURN_IF_ERROR(MeasureAlone());
    LAGOON_RETURN_IF_ERROR(MeasureCapacity());
    LAGOON_RETURN_IF_ERROR(Measure(evidence, progress));
    if (model_ != options_.models.front()) return {};
    return MeasureGivingUp(*core_, Request(1),
                           {.rate = kGivingUpLoad * capacity_,
                            .limit = FromSeconds(options_.deadline_alpha * alone_ms_ / 1000),
                            .windows = options_.windows,
                            .window_seconds = options_.window_seconds,
                            .seed = options_.seed},
                           evidence, progress);
  }

  double alone_ms() const { return alone_ms_; }

 private:
  using Key = std::pair<std::size_t, std::size_t>;  // load, side

  InferRequest Request(std::size_t side) const {
    return RequestOf(*onnx_, NameOf(model_, side), onnx_->DefaultInputs());
  }

  Status MeasureAlone() {
    std::vector<double> times_ms;
    for (int i = 0; i < kAloneRuns; ++i) {
      for (std::size_t side = 0; side < std::size(kSides); ++side) {
        const TimePoint begin = Now();
        const Answer answer = Ask(*core_, Request(side));
        if (!answer) return tl::unexpected(answer.error());
        if (side == 1) times_ms.push_back(ToMilliseconds(Now() - begin));
      }
    }
    alone_ms_ = Median(times_ms);
    report_.Metric("latency_ms_alone." + model_, alone_ms_);
    return {};
  }

  // A closed loop: as many requests as keep all cores busy.
  Status MeasureCapacity() {
    const InferRequest request = Request(1);
    std::atomic<int> answered{0}, failed{0};
    const TimePoint begin = Now();
    const TimePoint end = begin + FromSeconds(std::max(options_.window_seconds, 0.2));
    {
      std::vector<std::jthread> clients(kAtOnce);
      for (std::jthread& client : clients) {
        client = std::jthread([&] {
          while (Now() < end) ++(Ask(*core_, request) ? answered : failed);
        });
      }
    }
    if (failed > 0) return Fail(ErrorCode::kInternal, fmt::format("'{}' failed", model_));
    capacity_ = answered / std::chrono::duration<double>(Now() - begin).count();
    report_.Metric("capacity_ips." + model_, capacity_);
    return {};
  }

  Status Measure(Evidence& evidence, ProgressBar& progress) {
    WindowsPlan plan{.groups = {}, .windows = {}, .rounds = options_.windows};
    plan.seed = options_.seed;
    for (const double load : options_.loads) {
      plan.groups.push_back(fmt::format("{} at load {:g}", model_, load));
    }
    plan.windows.assign(std::begin(kSides), std::end(kSides));
    const auto measure = [&](const WindowPlace& place) -> Status {
      std::vector<Window>& windows = windows_[{place.group, place.window}];
      windows.resize(place.trial + 1);
      LAGOON_ASSIGN_OR_RETURN(windows[place.trial], OpenLoop(place));
      progress.Step(plan.groups[place.group]);
      return {};
    };
    HostProbe probe;
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
    evidence.AddWindows(result.summary);
    AddMetrics(result, evidence);
    return {};
  }

  // Both sides of a trial get the same arrivals.
  Result<Window> OpenLoop(const WindowPlace& place) {
    const double rate = options_.loads[place.group] * capacity_;
    const auto count =
        static_cast<std::size_t>(std::clamp(rate * options_.window_seconds, 10.0, 1e6));
    const InferRequest request = Request(place.window);
    LAGOON_ASSIGN_OR_RETURN(const ModelStatistics before, StatisticsOf(place.window));
    std::mt19937_64 random(options_.seed + 1000 * place.trial + place.group);
    std::exponential_distribution<double> gap(rate);
    std::vector<Sent> all(count);
    std::atomic<std::size_t> left{count};
    TimePoint arrival = Now() + std::chrono::milliseconds(1);
    const TimePoint begin = arrival;
    for (Sent& sent : all) {
      arrival += FromSeconds(gap(random));
      std::this_thread::sleep_until(arrival);
      InferRequest one = request;
      sent.arrival = arrival;
      sent.asked = one.arrival = Now();
      one.timeout = FromSeconds(options_.deadline_alpha * alone_ms_ / 1000);
      core_->Infer(std::move(one), [&sent, &left](const Answer& answer) {
        sent.ended = Now();
        sent.answered = answer.has_value();
        if (!answer) sent.code = answer.error().code;
        if (left.fetch_sub(1) == 1) left.notify_all();
      });
    }
    for (std::size_t now = left.load(); now != 0; now = left.load()) left.wait(now);
    LAGOON_ASSIGN_OR_RETURN(const ModelStatistics after, StatisticsOf(place.window));
    return Summary(all, begin, after.inference_count - before.inference_count,
                   after.execution_count - before.execution_count);
  }

  Result<Window> Summary(const std::vector<Sent>& all, TimePoint begin, std::uint64_t rows,
                         std::uint64_t batches) const {
    Window window;
    TimePoint last = begin;
    for (const Sent& sent : all) {
      last = std::max(last, sent.ended);
      if (sent.answered) {
        window.answered_ms.push_back(ToMilliseconds(sent.ended - sent.arrival));
      } else if (sent.code == ErrorCode::kUnavailable) {
        window.refused_ms.push_back(ToMilliseconds(sent.ended - sent.asked));
      } else if (sent.code == ErrorCode::kDeadlineExceeded) {
        ++window.expired;
      } else {
        return Fail(sent.code, fmt::format("a request of '{}' failed", model_));
      }
    }
    window.seconds = std::chrono::duration<double>(last - begin).count();
    if (batches > 0)
      window.rows_per_batch = static_cast<double>(rows) / static_cast<double>(batches);
    return window;
  }

  Result<ModelStatistics> StatisticsOf(std::size_t side) const {
    LAGOON_ASSIGN_OR_RETURN(const auto statistics, core_->Statistics(NameOf(model_, side), ""));
    return statistics.front();
  }

  void AddMetrics(const WindowsResult& result, Evidence& evidence) {
    double most[std::size(kSides)] = {};
    std::vector<std::vector<double>> batched;  // throughput in the trials of each load
    for (std::size_t load = 0; load < options_.loads.size(); ++load) {
      for (std::size_t side = 0; side < std::size(kSides); ++side) {
        std::vector<double> throughput = AddCase(load, side, result.trials[load], evidence);
        most[side] = std::max(most[side], Median(throughput));
        if (side == 0) batched.push_back(std::move(throughput));
      }
    }
    report_.Metric("batching_gain." + model_, most[0] / most[1]);
    const auto heaviest =
        static_cast<std::size_t>(std::ranges::max_element(options_.loads) - options_.loads.begin());
    for (double& value : batched[heaviest]) value /= most[0];
    const std::string name = "overload_goodput_fraction." + model_;
    evidence.Target(name, evidence.Add(name, batched[heaviest]), Bound::kAtLeast, 0.95,
                    result.Clean(heaviest));
    AddRefusals(heaviest, result, evidence);
  }

  // The throughput of each trial.
  std::vector<double> AddCase(std::size_t load, std::size_t side,
                              const std::vector<std::size_t>& trials, Evidence& evidence) {
    std::vector<double> throughput, refused, rows, latencies;
    for (const std::size_t trial : trials) {
      const Window& window = windows_[{load, side}][trial];
      const auto answered = static_cast<double>(window.answered_ms.size());
      const double not_answered = static_cast<double>(window.refused_ms.size()) + window.expired;
      throughput.push_back(answered / window.seconds);
      refused.push_back(not_answered / (answered + not_answered));
      rows.push_back(window.rows_per_batch);
      latencies.insert(latencies.end(), window.answered_ms.begin(), window.answered_ms.end());
    }
    const std::string of = fmt::format("{}.{}.{}", model_, kSides[side], LoadName(load));
    evidence.Add("throughput_ips." + of, throughput);
    report_.Metric("refused_fraction." + of, Median(refused));
    if (side == 0) {
      report_.Metric(fmt::format("rows_per_batch.{}.{}", model_, LoadName(load)), Median(rows));
    }
    if (latencies.empty()) return throughput;
    for (const int percent : {50, latencies.size() >= kSamplesForP99 ? 99 : 90}) {
      report_.Metric(fmt::format("latency_ms_p{}.{}", percent, of), Percentile(latencies, percent));
    }
    return throughput;
  }

  void AddRefusals(std::size_t load, const WindowsResult& result, Evidence& evidence) {
    std::vector<double> p99;
    for (const std::size_t trial : result.trials[load]) {
      const std::vector<double>& refused = windows_[{load, 0}][trial].refused_ms;
      if (refused.size() >= kSamplesForWindowP99) p99.push_back(Percentile(refused, 99));
    }
    if (p99.empty()) return;
    const std::string name = "overload_refusal_ms_p99." + model_;
    evidence.Target(name, evidence.Add(name, p99), Bound::kAtMost, 1, result.Clean(load));
  }

  std::string LoadName(std::size_t load) const {
    return fmt::format("l{:.0f}", 100 * options_.loads[load]);
  }

  const BatchingOptions& options_;
  const std::string model_;
  Report& report_;
  std::unique_ptr<OnnxModel> onnx_;
  std::unique_ptr<Inference> core_;
  double alone_ms_ = 0, capacity_ = 0;
  std::map<Key, std::vector<Window>> windows_;
};

// Requests one at a time of a model that computes next to nothing.
Status MeasureAdded(const BatchingOptions& options, Report& report, Evidence& evidence,
                    ProgressBar& progress) {
  constexpr int kRequests = 300;  // of a window
  const std::int64_t dims[] = {-1, 3, 32, 32};
  LAGOON_ASSIGN_OR_RETURN(TemporaryRepository repository, TemporaryRepository::Link("", {}));
  LAGOON_RETURN_IF_ERROR(
      repository.AddChannelMeans(NameOf(kChannelMeans, 0), dims, Config(options.most_rows)));
  LAGOON_RETURN_IF_ERROR(repository.AddChannelMeans(NameOf(kChannelMeans, 1), dims));
  LAGOON_ASSIGN_OR_RETURN(const auto onnx,
                          OnnxModel::Read(ModelFile(repository.path(), NameOf(kChannelMeans, 0))));
  LAGOON_ASSIGN_OR_RETURN(const auto core,
                          Serve(repository.path(), options.scheduler, options.workers));
  std::vector<double> medians[std::size(kSides)];
  WindowsPlan plan{.groups = {"one request at a time"}, .windows = {}, .rounds = kAloneRounds};
  plan.windows.assign(std::begin(kSides), std::end(kSides));
  const auto measure = [&](const WindowPlace& place) -> Status {
    const InferRequest request =
        RequestOf(*onnx, NameOf(kChannelMeans, place.window), onnx->DefaultInputs());
    std::vector<double> times_us;
    for (int i = 0; i < kRequests; ++i) {
      const TimePoint begin = Now();
      const Answer answer = Ask(*core, request);
      if (!answer) return tl::unexpected(answer.error());
      times_us.push_back(ToMicroseconds(Now() - begin));
    }
    medians[place.window].resize(place.trial + 1);
    medians[place.window][place.trial] = Median(times_us);
    progress.Step(plan.groups.front());
    return {};
  };
  HostProbe probe;
  LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
  std::vector<double> added, single;
  for (const std::size_t trial : result.trials[0]) {
    single.push_back(medians[1][trial]);
    added.push_back(medians[0][trial] - single.back());
  }
  report.Metric("latency_us_p50.single", Median(single));
  const std::string name = "batcher_added_us_p50";
  evidence.Target(name, evidence.Add(name, added), Bound::kAtMost, 5, result.Clean(0));
  evidence.AddWindows(result.summary);
  return {};
}

}  // namespace

Status RunBatching(const BatchingOptions& options, Report& report) {
  spdlog::set_level(spdlog::level::warn);
  const std::size_t cases = options.models.size() * options.loads.size();
  BatchLimitsOptions limits = options.limits;
  limits.zoo = options.zoo;
  limits.scheduler = options.scheduler;
  limits.workers = options.workers;
  ProgressBar progress(
      "bench batching",
      static_cast<int>(std::size(kSides)) *
              (static_cast<int>(cases) * options.windows + kAloneRounds) +
          static_cast<int>(options.models.size() * std::size(kBatchSteps)) * options.windows +
          static_cast<int>(std::size(kGivingUpSides)) * options.windows +
          static_cast<int>(limits.slos_ms.size() * limits.limiters.size()));
  Evidence evidence(report, options.seed);
  LAGOON_RETURN_IF_ERROR(MeasureAdded(options, report, evidence, progress));
  for (const std::string& model : options.models) {
    ModelBenchmark benchmark(options, model, report);
    const Status measured = benchmark.Run(evidence, progress);
    if (!measured) return Annotate(model, measured.error());
    const Status steps = MeasureBatchSteps({.zoo = options.zoo,
                                            .model = model,
                                            .scheduler = options.scheduler,
                                            .workers = options.workers,
                                            .rows = options.most_rows,
                                            .slo_ms = options.deadline_alpha * benchmark.alone_ms(),
                                            .windows = options.windows,
                                            .window_seconds = options.window_seconds,
                                            .seed = options.seed},
                                           evidence, progress);
    if (!steps) return Annotate(model, steps.error());
  }
  evidence.Finish();
  return RunBatchLimits(limits, progress, report);
}

}  // namespace lagoon::bench
