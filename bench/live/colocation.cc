#include "bench/live/colocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <map>
#include <random>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "base/text.h"
#include "bench/client/bound_model.h"
#include "bench/client/core_requests.h"
#include "bench/client/temporary_repository.h"
#include "bench/measure/evidence.h"
#include "bench/measure/seconds.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"
#include "policies/registry.h"
#include "serving/core/scheduler_control.h"

namespace lagoon::bench {
namespace {

constexpr int kAloneRuns = 20;
constexpr auto kLead = std::chrono::milliseconds(20);  // until all clients have begun

struct Side {
  std::string name;
  std::string scheduler;  // empty: ONNX Runtime
  bool joined = false;    // requests are joined into batches
  bool shared = false;    // each model has a share
  int threads = 0;        // of ONNX Runtime
  bool spinning = true;
};

// What happened to the requests of one model in one window.
struct Served {
  std::vector<double> latencies_ms;
  double seconds = 0;
  double ended = 0;  // requests that were answered within the window
};

/// Distances of arrivals that a model's clients send, in seconds from the window's start.
std::vector<double> Arrivals(double rate, double seconds, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(rate);
  std::vector<double> arrivals;
  for (double at = gap(random); at < seconds; at += gap(random)) arrivals.push_back(at);
  return arrivals;
}

/// One combination of models.
class Combination {
 public:
  Combination(const ColocationOptions& options, std::string name, Report& report)
      : options_(options), name_(std::move(name)), models_(ModelsOf(name_)), report_(report) {}

  Status Run(Evidence& evidence, ProgressBar& progress);

 private:
  static constexpr std::size_t kClosed = 0, kOpen = 1;

  Status Open();
  Status OpenOnnxRuntime();
  Result<std::vector<Served>> Measure(const WindowPlace& place);
  Result<std::vector<Served>> MeasureServed(const Side& side, bool open, std::size_t trial);
  Result<std::vector<Served>> MeasureOnnxRuntime(std::size_t side, bool open, std::size_t trial);
  Served ClosedLoop(Inference& core, const InferRequest& request, TimePoint begin) const;
  Served OpenLoop(Inference& core, const InferRequest& request, TimePoint begin,
                  const std::vector<double>& arrivals) const;
  void AddMetrics(const WindowsResult& result, Evidence& evidence);
  void AddCase(std::size_t side, std::size_t group, const std::vector<std::size_t>& trials,
               Evidence& evidence);
  std::string NameOf(std::size_t model, const Side& side) const {
    return models_[model] + (side.joined ? "_joined" : "");
  }

  const ColocationOptions& options_;
  const std::string name_;
  const std::vector<std::string> models_;
  Report& report_;
  std::vector<Side> sides_;
  std::vector<std::unique_ptr<OnnxModel>> files_;  // by model
  std::vector<double> slo_ms_, rates_;             // by model
  std::unique_ptr<Inference> whole_, shared_;      // without shares, and with them
  std::vector<std::vector<std::unique_ptr<ComparatorProcess>>> sessions_;  // by setting, model
  std::map<std::pair<std::size_t, std::size_t>, std::vector<std::vector<Served>>> outcomes_;
  std::map<std::size_t, double> gue_;                                 // by side
  std::map<std::pair<std::size_t, std::size_t>, double> throughput_;  // by side, model; closed
};

Status Combination::Open() {
  LAGOON_ASSIGN_OR_RETURN(TemporaryRepository alone,
                          TemporaryRepository::Link(options_.zoo, models_));
  LAGOON_ASSIGN_OR_RETURN(auto core, Serve(alone.path(), "reset", options_.workers));
  LAGOON_ASSIGN_OR_RETURN(TemporaryRepository whole, TemporaryRepository::Link("", {}));
  LAGOON_ASSIGN_OR_RETURN(TemporaryRepository shared, TemporaryRepository::Link("", {}));
  for (const std::string& model : models_) {
    const std::string file = ModelFile(options_.zoo, model);
    LAGOON_ASSIGN_OR_RETURN(files_.emplace_back(), OnnxModel::Read(file));
    std::vector<double> times_ms;
    for (int i = 0; i < kAloneRuns; ++i) {
      const TimePoint begin = Now();
      const Answer answer =
          Ask(*core, RequestOf(*files_.back(), model, files_.back()->DefaultInputs()));
      if (!answer) return tl::unexpected(answer.error());
      times_ms.push_back(ToMilliseconds(Now() - begin));
    }
    slo_ms_.push_back(options_.slo_factor * Median(times_ms));
    report_.Metric(fmt::format("latency_ms_alone.{}.{}", name_, model), Median(times_ms));
    report_.Metric(fmt::format("slo_ms.{}.{}", name_, model), slo_ms_.back());
    const auto parameter = [](std::string_view key, double value) {
      return fmt::format("parameters {{ key: \"{}\" value {{ string_value: \"{:.3f}\" }} }}\n", key,
                         value);
    };
    const std::string joined =
        fmt::format("max_batch_size: {}\ndynamic_batching {{ }}\n{}", options_.most_rows,
                    parameter("lagoon.slo_ms", slo_ms_.back()));
    const double percent = std::floor(1000.0 / static_cast<double>(models_.size())) / 10;
    LAGOON_RETURN_IF_ERROR(whole.AddFile(model, file));
    LAGOON_RETURN_IF_ERROR(whole.AddFile(model + "_joined", file, joined));
    LAGOON_RETURN_IF_ERROR(
        shared.AddFile(model + "_joined", file, joined + parameter("lagoon.share", percent)));
  }
  const bool by_weight = models_.size() > core->schedulers()->device().units;
  core.reset();
  LAGOON_ASSIGN_OR_RETURN(whole_, Serve(whole.path(), "streams", options_.workers));
  const std::string shares = by_weight ? "weighted" : "shares";
  LAGOON_ASSIGN_OR_RETURN(shared_, Serve(shared.path(), shares, options_.workers));
  sides_ = {{"streams", "streams"},
            {"time-slice", "time-slice"},
            {"streams+slab", "streams", true},
            {"shares+slab", shares, true, true},
            {"lagoon+slab", options_.scheduler, true, true}};
  return options_.against_onnxruntime ? OpenOnnxRuntime() : Status();
}

Status Combination::OpenOnnxRuntime() {
  for (const int threads : {0, 1}) {
    for (const bool spinning : {true, false}) {
      sides_.push_back({fmt::format("onnxruntime-{}-{}", threads == 0 ? "all" : "1",
                                    spinning ? "spin" : "sleep"),
                        "", false, false, threads, spinning});
      auto& sessions = sessions_.emplace_back();
      for (const std::string& model : models_) {
        ComparatorOptions options = options_.onnxruntime;
        options.threads = threads;
        options.spinning = spinning;
        LAGOON_ASSIGN_OR_RETURN(sessions.emplace_back(),
                                ComparatorProcess::Start(ModelFile(options_.zoo, model), options));
        const auto warm = sessions.back()->Run(3, 3);
        if (!warm) return tl::unexpected(warm.error());
      }
    }
  }
  return {};
}

Status Combination::Run(Evidence& evidence, ProgressBar& progress) {
  LAGOON_RETURN_IF_ERROR(Open());
  // The open loops send a part (--load) of the requests that `streams` can answer.
  LAGOON_ASSIGN_OR_RETURN(const std::vector<Served> most, MeasureServed(sides_[0], false, 0));
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const double done = most[i].ended / most[i].seconds;
    rates_.push_back(options_.load * std::max(done, 1 / options_.window_seconds));
    report_.Metric(fmt::format("arrivals_ips.{}-load.{}", name_, models_[i]), rates_.back());
  }
  WindowsPlan plan{.groups = {name_, name_ + "-load"}, .windows = {}, .rounds = options_.windows};
  plan.seed = options_.seed;
  for (const Side& side : sides_) plan.windows.push_back(side.name);
  const auto measure = [&](const WindowPlace& place) -> Status {
    auto& outcomes = outcomes_[{place.group, place.window}];
    outcomes.resize(place.trial + 1);
    LAGOON_ASSIGN_OR_RETURN(outcomes[place.trial], Measure(place));
    progress.Step(fmt::format("{} {}", plan.groups[place.group], plan.windows[place.window]));
    return {};
  };
  HostProbe probe;
  LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
  evidence.AddWindows(result.summary);
  AddMetrics(result, evidence);
  return {};
}

Result<std::vector<Served>> Combination::Measure(const WindowPlace& place) {
  const Side& side = sides_[place.window];
  const bool open = place.group == kOpen;
  if (!side.scheduler.empty()) return MeasureServed(side, open, place.trial);
  return MeasureOnnxRuntime(place.window, open, place.trial);
}

Result<std::vector<Served>> Combination::MeasureServed(const Side& side, bool open,
                                                       std::size_t trial) {
  Inference& core = side.shared ? *shared_ : *whole_;
  SchedulerControl& schedulers = *core.schedulers();
  if (ChoiceOf(schedulers.scheduler()).Text() != side.scheduler) {
    LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(side.scheduler));
    std::promise<Status> done;
    schedulers.SwitchScheduler(std::move(scheduler),
                               [&](Status status) { done.set_value(std::move(status)); });
    LAGOON_RETURN_IF_ERROR(done.get_future().get());
  }
  std::vector<InferRequest> requests;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    requests.push_back(RequestOf(*files_[i], NameOf(i, side), files_[i]->DefaultInputs()));
    const Answer warm = Ask(core, requests.back());
    if (!warm) return tl::unexpected(warm.error());
  }
  std::vector<Served> outcomes(models_.size());
  const TimePoint begin = Now() + kLead;
  {
    std::vector<std::jthread> loops;
    for (std::size_t i = 0; i < models_.size(); ++i) {
      loops.emplace_back([&, i] {
        outcomes[i] = open ? OpenLoop(core, requests[i], begin,
                                      Arrivals(rates_[i], options_.window_seconds,
                                               options_.seed + 1000 * trial + i))
                           : ClosedLoop(core, requests[i], begin);
      });
    }
  }
  return outcomes;
}

// As many clients, each of which sends its next request when the last one is answered.
Served Combination::ClosedLoop(Inference& core, const InferRequest& request,
                               TimePoint begin) const {
  const TimePoint end = begin + FromSeconds(options_.window_seconds);
  Mutex mutex;
  Served outcome{{}, options_.window_seconds, 0};
  std::vector<std::jthread> clients;
  for (int i = 0; i < options_.clients; ++i) {
    clients.emplace_back([&] {
      std::this_thread::sleep_until(begin);
      for (TimePoint sent = Now(); sent < end;) {
        const bool answered = Ask(core, request).has_value();
        const TimePoint now = Now();
        if (answered && now < end) {
          const MutexLock lock(mutex);
          outcome.latencies_ms.push_back(ToMilliseconds(now - sent));
          ++outcome.ended;
        }
        sent = now;
      }
    });
  }
  clients.clear();
  return outcome;
}

// Latencies count from the intended arrival.
Served Combination::OpenLoop(Inference& core, const InferRequest& request, TimePoint begin,
                             const std::vector<double>& arrivals) const {
  struct Shared {
    Mutex mutex;
    CondVar all_answered;
    std::size_t left = 0;
    Served outcome;
  } shared;
  const TimePoint end = begin + FromSeconds(options_.window_seconds);
  shared.left = arrivals.size();
  shared.outcome.seconds = options_.window_seconds;
  for (const double at : arrivals) {
    const TimePoint arrival = begin + FromSeconds(at);
    std::this_thread::sleep_until(arrival);
    InferRequest one = request;
    one.arrival = Now();
    core.Infer(std::move(one), [&shared, arrival, end](const Answer& answer) {
      const TimePoint now = Now();
      const MutexLock lock(shared.mutex);
      if (answer) shared.outcome.latencies_ms.push_back(ToMilliseconds(now - arrival));
      if (answer && now < end) ++shared.outcome.ended;
      if (--shared.left == 0) shared.all_answered.NotifyAll();
    });
  }
  const MutexLock lock(shared.mutex);
  while (shared.left > 0) shared.all_answered.Wait(shared.mutex);
  return std::move(shared.outcome);
}

// A closed loop of n clients of a server that takes one request at a time, in order: a request is
// answered n completions after it was sent.
Result<std::vector<Served>> Combination::MeasureOnnxRuntime(std::size_t side, bool open,
                                                            std::size_t trial) {
  auto& sessions = sessions_[side - (sides_.size() - sessions_.size())];
  const TimePoint begin = Now() + kLead;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (open) {
      std::vector<double> arrivals_us =
          Arrivals(rates_[i], options_.window_seconds, options_.seed + 1000 * trial + i);
      for (double& at : arrivals_us) at *= 1e6;
      LAGOON_RETURN_IF_ERROR(sessions[i]->BeginOpenLoop(begin, arrivals_us));
    } else {
      LAGOON_RETURN_IF_ERROR(
          sessions[i]->BeginLoop(begin, begin + FromSeconds(options_.window_seconds)));
    }
  }
  std::vector<Served> outcomes(models_.size());
  for (std::size_t i = 0; i < models_.size(); ++i) {
    Served& outcome = outcomes[i];
    outcome.seconds = options_.window_seconds;
    const double window_us = 1e6 * options_.window_seconds;
    if (open) {
      LAGOON_ASSIGN_OR_RETURN(const auto answered, sessions[i]->EndOpenLoop());
      for (const double us : answered.latencies_us) outcome.latencies_ms.push_back(us / 1000);
      outcome.ended = static_cast<double>(
          std::ranges::count_if(answered.ends_us, [&](double us) { return us < window_us; }));
      continue;
    }
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> ends_us, sessions[i]->EndLoop());
    const auto clients = static_cast<std::size_t>(options_.clients);
    for (std::size_t k = 0; k < ends_us.size() && ends_us[k] <= window_us; ++k) {
      const double sent_us = k < clients ? 0 : ends_us[k - clients];
      outcome.latencies_ms.push_back((ends_us[k] - sent_us) / 1000);
      ++outcome.ended;
    }
  }
  return outcomes;
}

void Combination::AddCase(std::size_t side, std::size_t group,
                          const std::vector<std::size_t>& trials, Evidence& evidence) {
  const std::string of =
      fmt::format("{}.{}{}", sides_[side].name, name_, group == kOpen ? "-load" : "");
  double all = 0, weighted = 0, answered = 0;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    std::vector<double> throughput, latencies;
    for (const std::size_t trial : trials) {
      const Served& outcome = outcomes_[{group, side}][trial][i];
      throughput.push_back(outcome.ended / outcome.seconds);
      latencies.insert(latencies.end(), outcome.latencies_ms.begin(), outcome.latencies_ms.end());
    }
    const std::string name = fmt::format("{}.{}", of, models_[i]);
    evidence.Add("throughput_ips." + name, throughput);
    const double median = Median(throughput);
    if (group == kClosed) throughput_[{side, i}] = median;
    if (latencies.empty()) continue;
    for (const int percent : {50, latencies.size() >= kSamplesForP99 ? 99 : 90}) {
      report_.Metric(fmt::format("latency_ms_p{}.{}", percent, name),
                     Percentile(latencies, percent));
    }
    const auto kept = std::ranges::count_if(latencies, [&](double ms) { return ms <= slo_ms_[i]; });
    report_.Metric("slo_kept." + name,
                   static_cast<double>(kept) / static_cast<double>(latencies.size()));
    all += median;
    for (const double ms : latencies) weighted += ms;
    answered += static_cast<double>(latencies.size());
  }
  if (group != kClosed || answered == 0) return;
  gue_[side] = all / (weighted / answered);
  report_.Metric("gue." + of, gue_[side]);
}

void Combination::AddMetrics(const WindowsResult& result, Evidence& evidence) {
  for (const std::size_t group : {kClosed, kOpen}) {
    for (std::size_t side = 0; side < sides_.size(); ++side) {
      AddCase(side, group, result.trials[group], evidence);
    }
  }
  const auto lagoon = static_cast<std::size_t>(
      std::ranges::find(sides_, "lagoon+slab", &Side::name) - sides_.begin());
  report_.Metric("gue_vs_default." + name_, gue_[lagoon] / gue_[0]);
  if (sessions_.empty()) return;
  double best = 0, sum = 0;
  for (std::size_t side = sides_.size() - sessions_.size(); side < sides_.size(); ++side) {
    double logs = 0;
    for (std::size_t i = 0; i < models_.size(); ++i) {
      logs += std::log(std::max(throughput_[{side, i}], 1e-9));
    }
    best = side == sides_.size() - sessions_.size() ? logs : std::max(best, logs);
  }
  for (std::size_t i = 0; i < models_.size(); ++i) sum += std::log(throughput_[{lagoon, i}]);
  report_.Metric("throughput_vs_onnxruntime." + name_,
                 std::exp((sum - best) / static_cast<double>(models_.size())));
}

}  // namespace

std::vector<std::string> ModelsOf(const std::string& combination) {
  std::vector<std::string> models;
  for (std::size_t begin = 0; begin <= combination.size();) {
    const std::size_t end = std::min(combination.find('+', begin), combination.size());
    models.push_back(combination.substr(begin, end - begin));
    begin = end + 1;
  }
  return models;
}

Status RunColocation(const ColocationOptions& options, Report& report) {
  spdlog::set_level(spdlog::level::warn);
  for (const std::string& combination : options.combinations) {
    for (const std::string& model : ModelsOf(combination)) {
      if (!model.empty()) continue;
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("combination {}: names of models with '+' between them",
                              Quoted(combination)));
    }
  }
  const int sides = options.against_onnxruntime ? 9 : 5;
  ProgressBar progress("bench shares",
                       sides * 2 * options.windows * static_cast<int>(options.combinations.size()));
  Evidence evidence(report, options.seed);
  for (const std::string& combination : options.combinations) {
    const Status measured = Combination(options, combination, report).Run(evidence, progress);
    if (!measured) return Annotate(combination, measured.error());
  }
  evidence.Finish();
  return {};
}

}  // namespace lagoon::bench
