#include "bench/fleet/fleet.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "bench/client/bound_model.h"
#include "bench/client/core_requests.h"
#include "bench/client/temporary_repository.h"
#include "bench/fleet/arrivals.h"
#include "bench/measure/seconds.h"
#include "bench/measure/statistics.h"
#include "serving/fleet/open_fleet.h"
#include "serving/fleet/placer_names.h"
#include "sim/placement/comparators.h"

namespace lagoon::bench {
namespace {

Result<std::unique_ptr<Placer>> MakeBenchPlacer(std::string_view name) {
  const bool served = std::ranges::count(FleetPlacers(), name) > 0;
  return served ? MakeFleetPlacer(name) : MakeAnyPlacer(name);
}

std::string NameOf(std::size_t model) { return fmt::format("model_{:02}", model); }

/// The answers to the requests of one run. Any thread.
class Answers {
 public:
  void Begin() {
    const MutexLock lock(mutex_);
    ++open_;
  }
  void End(const Answer& answer, Nanoseconds took) {
    const MutexLock lock(mutex_);
    if (answer) {
      latencies_ms_.push_back(ToMilliseconds(took));
    } else if (++failures_[answer.error().message] == 1) {
      spdlog::error("a request has failed: {}", answer.error().message);
    }
    if (--open_ == 0) ended_.NotifyAll();
  }
  void AwaitAll() {
    const MutexLock lock(mutex_);
    while (open_ > 0) ended_.Wait(mutex_);
  }
  std::vector<double> latencies_ms() const {
    const MutexLock lock(mutex_);
    return latencies_ms_;
  }
  /// How many requests failed, by message.
  std::map<std::string, std::uint64_t> failures() const {
    const MutexLock lock(mutex_);
    return failures_;
  }

 private:
  mutable Mutex mutex_;
  CondVar ended_;
  std::size_t open_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::uint64_t> failures_ GUARDED_BY(mutex_);
  std::vector<double> latencies_ms_ GUARDED_BY(mutex_);
};

std::string Parameter(const char* key, const std::string& value) {
  return fmt::format("parameters {{ key: \"{}\" value {{ string_value: \"{}\" }} }}\n", key, value);
}

class FleetBench {
 public:
  FleetBench(const FleetBenchOptions& options, Report& report)
      : options_(options), report_(report) {}

  Status Run() {
    LAGOON_RETURN_IF_ERROR(ReadModels());
    LAGOON_RETURN_IF_ERROR(SetRates());
    for (const std::string& side : options_.sides) {
      LAGOON_ASSIGN_OR_RETURN(repositories_[side], MakeRepository(side));
    }
    const std::size_t runs =
        static_cast<std::size_t>(options_.seeds) * options_.sides.size() * options_.placers.size();
    ProgressBar progress("fleet", static_cast<int>(runs));
    for (int i = 0; i < options_.seeds; ++i) {
      arrivals_.seed = options_.seed + static_cast<std::uint32_t>(i);
      for (const std::string& side : options_.sides) {
        for (const std::string& placer : options_.placers) {
          LAGOON_RETURN_IF_ERROR(RunPlacer(placer, side));
          progress.Step(fmt::format("{}, {}", placer, side));
        }
      }
    }
    WriteMetrics();
    return {};
  }

 private:
  using Repository = std::unique_ptr<TemporaryRepository>;

  /// The queues are so long that an overload makes requests late; a request that fails has failed
  /// because of a move.
  std::string Config(const std::string& side) const {
    std::string config =
        "max_batch_size: 8\ndynamic_batching {}\n" + Parameter("lagoon.max_queue_size", "65536");
    if (slo_ > Nanoseconds(0)) {
      config += Parameter("lagoon.slo_ms", fmt::format("{:.3f}", ToMilliseconds(slo_)));
    }
    if (side != "none") config += Parameter("lagoon.share", "auto");
    return config;
  }

  std::string FileOf(std::size_t model) const {
    return ModelFile(options_.zoo, options_.files[model % options_.files.size()]);
  }

  Status ReadModels() {
    for (std::size_t model = 0; model < static_cast<std::size_t>(options_.models); ++model) {
      LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<OnnxModel> onnx,
                              OnnxModel::Read(FileOf(model)));
      requests_.push_back(RequestOf(*onnx, NameOf(model), onnx->DefaultInputs()));
    }
    return {};
  }

  Result<Repository> MakeRepository(const std::string& side) const {
    LAGOON_ASSIGN_OR_RETURN(TemporaryRepository repository,
                            TemporaryRepository::Link(options_.zoo, {}));
    for (std::size_t model = 0; model < requests_.size(); ++model) {
      LAGOON_RETURN_IF_ERROR(repository.AddFile(NameOf(model), FileOf(model), Config(side)));
    }
    return std::make_unique<TemporaryRepository>(std::move(repository));
  }

  Result<std::unique_ptr<FleetCore>> Open(const std::string& placer, const std::string& side) {
    LAGOON_ASSIGN_OR_RETURN(const FleetWords devices, ParseFleet(options_.devices, {}));
    CoreOptions core;
    core.repository = repositories_.at(side)->path();
    core.scheduler = options_.scheduler;
    core.engine = "none";
    core.profile.store = {repositories_.at("")->path() + "/.profiles", "bench fleet"};
    FleetOptions fleet;
    fleet.placer = placer;
    fleet.make_placer = MakeBenchPlacer;
    fleet.batch_limits = side == "limits";
    if (slo_ > Nanoseconds(0)) fleet.default_slo = slo_;
    return OpenFleet(core, devices, std::move(fleet));
  }

  /// The SLO and the rate, from the times of the models alone on a device.
  Status SetRates() {
    LAGOON_ASSIGN_OR_RETURN(repositories_[""], MakeRepository("none"));
    LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<FleetCore> fleet, Open("static", ""));
    Nanoseconds longest{0}, sum{0};
    int ready = 0;
    for (const ModelStatus& model : fleet->Models()) {
      if (model.state != ModelState::kReady) continue;
      longest = std::max(longest, model.standalone);
      sum += model.standalone;
      ++ready;
    }
    if (ready != options_.models || sum == Nanoseconds(0)) {
      return Fail(ErrorCode::kInternal, fmt::format("{} of {} models are served; the log says why",
                                                    ready, options_.models));
    }
    const double slo_ms =
        options_.slo_ms > 0 ? options_.slo_ms : options_.slo_factor * ToMilliseconds(longest);
    slo_ = FromSeconds(slo_ms / 1e3);
    const auto devices = static_cast<double>(fleet->ReadFleet().devices.size());
    arrivals_.models = static_cast<std::size_t>(options_.models);
    arrivals_.rate_per_s = options_.rate_per_s > 0
                               ? options_.rate_per_s
                               : options_.load * devices * ready / (ToMilliseconds(sum) / 1e3);
    arrivals_.phases = options_.phases;
    arrivals_.phase = FromSeconds(options_.phase_seconds);
    report_.Metric("slo_ms", ToMilliseconds(slo_));
    report_.Metric("rate_per_s", arrivals_.rate_per_s);
    return {};
  }

  Status RunPlacer(const std::string& placer, const std::string& side) {
    LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<FleetCore> fleet, Open(placer, side));
    const std::vector<Arrival> arrivals = DrawArrivals(arrivals_);
    Answers answers;
    const TimePoint start = Now();
    Nanoseconds next_reading{0};
    for (const Arrival& arrival : arrivals) {
      const TimePoint due = start + arrival.at;
      std::this_thread::sleep_until(due);
      InferRequest request = requests_[arrival.model];
      request.arrival = due;
      answers.Begin();
      fleet->Infer(std::move(request),
                   [&answers, due](const Answer& answer) { answers.End(answer, Now() - due); });
      if (arrival.at < next_reading) continue;
      next_reading = arrival.at + std::chrono::seconds(1);
      ReadPredictions(*fleet);
    }
    answers.AwaitAll();
    const std::vector<double> latencies = answers.latencies_ms();
    const auto late =
        std::ranges::count_if(latencies, [this](double ms) { return ms > ToMilliseconds(slo_); });
    const auto requests = static_cast<double>(arrivals.size());
    std::uint64_t failures = 0;
    for (const auto& [message, times] : answers.failures()) failures += times;
    failed_ += failures;
    const std::string of = side == "none" ? placer : placer + "." + side;
    const auto add = [&](const char* name, double value) { runs_[name][of].push_back(value); };
    add("requests", requests);
    add("failed_requests", static_cast<double>(failures));
    add("violation_rate", (static_cast<double>(late) + static_cast<double>(failures)) / requests);
    add("moves", static_cast<double>(fleet->ReadFleet().unloads));
    if (latencies.empty()) return {};
    add("latency_ms_p50", Percentile(latencies, 50));
    add("latency_ms_p99", Percentile(latencies, 99));
    return {};
  }

  void ReadPredictions(const FleetCore& fleet) {
    for (const FleetReplicaReport& replica : fleet.ReadFleet().replicas) {
      if (!replica.batches) continue;
      errors_.push_back(std::abs(replica.batches->expected_ms / replica.batches->measured_ms - 1));
    }
  }

  void WriteMetrics() {
    report_.Metric("fleet_failed_requests", static_cast<double>(failed_));
    if (!errors_.empty()) {
      report_.Metric("fleet_prediction_error_median", Median(errors_));
    }
    for (const auto& [name, of_runs] : runs_) {
      for (const auto& [of, values] : of_runs) {
        report_.Metric(fmt::format("{}.{}", name, of), Median(values));
      }
    }
    const auto& violations = runs_["violation_rate"];
    for (const auto& [of, rates] : violations) {
      if (options_.seeds > 1) {
        report_.Metric("violation_rate_low." + of, *std::ranges::min_element(rates));
        report_.Metric("violation_rate_high." + of, *std::ranges::max_element(rates));
      }
      const auto none = violations.find(of.substr(0, of.find('.')));
      if (none == violations.end() || none->first == of) continue;
      int not_worse = 0;
      for (std::size_t i = 0; i < rates.size(); ++i) not_worse += rates[i] <= none->second[i];
      report_.Metric("seeds_not_worse." + of, not_worse);
    }
  }

  const FleetBenchOptions& options_;
  Report& report_;
  std::map<std::string, Repository> repositories_;  // by side; "" is that of SetRates()
  std::vector<InferRequest> requests_;              // by model
  Nanoseconds slo_{0};
  ArrivalOptions arrivals_;
  /// Values of the runs, by metric, then by placer and side.
  std::map<std::string, std::map<std::string, std::vector<double>>> runs_;
  std::vector<double> errors_;  // of predicted times
  std::uint64_t failed_ = 0;
};

}  // namespace

std::vector<std::string> FleetBenchPlacers() {
  std::vector<std::string> names = FleetPlacers();
  for (const PlacerInfo& info : AllPlacers()) {
    if (std::ranges::count(names, info.name) == 0) names.push_back(info.name);
  }
  return names;
}

Status RunFleet(const FleetBenchOptions& options, Report& report) {
  if (options.files.empty() || options.placers.empty() || options.sides.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "a fleet is measured with a model, a placer and a side");
  }
  for (const auto& [option, words] :
       {std::pair{"--placers", options.placers}, std::pair{"--sides", options.sides}}) {
    const std::set<std::string> unique(words.begin(), words.end());
    if (unique.size() == words.size()) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: '{}' names one twice", option, fmt::join(words, ",")));
  }
  return FleetBench(options, report).Run();
}

}  // namespace lagoon::bench
