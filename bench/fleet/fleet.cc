#include "bench/fleet/fleet.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
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

class FleetBench {
 public:
  FleetBench(const FleetBenchOptions& options, Report& report)
      : options_(options), report_(report) {}

  Status Run() {
    LAGOON_RETURN_IF_ERROR(MakeModels());
    LAGOON_RETURN_IF_ERROR(SetRates());
    std::uint64_t failed = 0;
    ProgressBar progress("fleet", static_cast<int>(options_.placers.size()));
    for (const std::string& placer : options_.placers) {
      LAGOON_RETURN_IF_ERROR(RunPlacer(placer, failed));
      progress.Step(placer);
    }
    report_.Metric("fleet_failed_requests", static_cast<double>(failed));
    return {};
  }

 private:
  /// The queues are so long that an overload makes requests late; a request that fails has failed
  /// because of a move.
  std::string Config() const {
    const auto parameter = [](const char* key, const char* value) {
      return fmt::format("parameters {{ key: \"{}\" value {{ string_value: \"{}\" }} }}\n", key,
                         value);
    };
    std::string config = parameter("lagoon.max_queue_size", "65536");
    if (options_.shares) config += parameter("lagoon.share", "auto");
    return config;
  }

  Status MakeModels() {
    LAGOON_ASSIGN_OR_RETURN(TemporaryRepository repository,
                            TemporaryRepository::Link(options_.zoo, {}));
    repository_ = std::make_unique<TemporaryRepository>(std::move(repository));
    const auto models = static_cast<std::size_t>(options_.models);
    for (std::size_t model = 0; model < models; ++model) {
      const std::string file =
          ModelFile(options_.zoo, options_.files[model % options_.files.size()]);
      LAGOON_RETURN_IF_ERROR(repository_->AddFile(NameOf(model), file, Config()));
      LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<OnnxModel> onnx, OnnxModel::Read(file));
      requests_.push_back(RequestOf(*onnx, NameOf(model), onnx->DefaultInputs()));
    }
    return {};
  }

  Result<std::unique_ptr<FleetCore>> Open(const std::string& placer, Nanoseconds slo) {
    LAGOON_ASSIGN_OR_RETURN(const FleetWords devices, ParseFleet(options_.devices, {}));
    CoreOptions core;
    core.repository = repository_->path();
    core.scheduler = options_.scheduler;
    core.engine = "none";
    core.profile.store = {repository_->path() + "/.profiles", "bench fleet"};
    FleetOptions fleet;
    fleet.placer = placer;
    fleet.make_placer = MakeBenchPlacer;
    if (slo > Nanoseconds(0)) fleet.default_slo = slo;
    return OpenFleet(core, devices, std::move(fleet));
  }

  /// The SLO and the rate, from the times of the models alone on a device.
  Status SetRates() {
    LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<FleetCore> fleet, Open("static", Nanoseconds(0)));
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
    arrivals_.seed = options_.seed;
    report_.Metric("slo_ms", ToMilliseconds(slo_));
    report_.Metric("rate_per_s", arrivals_.rate_per_s);
    return {};
  }

  Status RunPlacer(const std::string& placer, std::uint64_t& failed) {
    LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<FleetCore> fleet, Open(placer, slo_));
    const std::vector<Arrival> arrivals = DrawArrivals(arrivals_);
    Answers answers;
    const TimePoint start = Now();
    for (const Arrival& arrival : arrivals) {
      const TimePoint due = start + arrival.at;
      std::this_thread::sleep_until(due);
      InferRequest request = requests_[arrival.model];
      request.arrival = due;
      answers.Begin();
      fleet->Infer(std::move(request),
                   [&answers, due](const Answer& answer) { answers.End(answer, Now() - due); });
    }
    answers.AwaitAll();
    const std::vector<double> latencies = answers.latencies_ms();
    const auto late =
        std::ranges::count_if(latencies, [this](double ms) { return ms > ToMilliseconds(slo_); });
    const auto requests = static_cast<double>(arrivals.size());
    std::uint64_t failures = 0;
    for (const auto& [message, times] : answers.failures()) failures += times;
    failed += failures;
    const auto metric = [&](const char* name, double value) {
      report_.Metric(fmt::format("{}.{}", name, placer), value);
    };
    metric("requests", requests);
    metric("failed_requests", static_cast<double>(failures));
    metric("violation_rate",
           (static_cast<double>(late) + static_cast<double>(failures)) / requests);
    metric("moves", static_cast<double>(fleet->ReadFleet().unloads));
    if (latencies.empty()) return {};
    metric("latency_ms_p50", Percentile(latencies, 50));
    metric("latency_ms_p99", Percentile(latencies, 99));
    return {};
  }

  const FleetBenchOptions& options_;
  Report& report_;
  std::unique_ptr<TemporaryRepository> repository_;
  std::vector<InferRequest> requests_;  // by model
  Nanoseconds slo_{0};
  ArrivalOptions arrivals_;
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
  if (options.files.empty() || options.placers.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "a fleet is measured with a model and a placer");
  }
  return FleetBench(options, report).Run();
}

}  // namespace lagoon::bench
