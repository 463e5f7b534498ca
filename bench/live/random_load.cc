#include "bench/live/random_load.h"

#include <functional>
#include <map>
#include <memory>

#include "bench/live/disb_sides.h"
#include "bench/measure/windows.h"

namespace lagoon::bench {
namespace {

constexpr const char* kOnnxRuntime = "onnxruntime";

DisbOptions SidesOf(const RandomLoadOptions& options) {
  DisbOptions sides;
  sides.zoo = options.zoo;
  sides.device = options.device;
  sides.onnxruntime = options.onnxruntime;
  sides.trace = options.trace;
  sides.workload.name = "random load";
  for (const std::string& model : options.models) {
    DisbClient client{model, model, JobClass::kBestEffort, {}};
    client.load.kind = DisbLoad::Kind::kTrace;  // the windows say when
    sides.workload.clients.push_back(std::move(client));
  }
  return sides;
}

class RandomLoadBenchmark {
 public:
  RandomLoadBenchmark(const RandomLoadOptions& options, Report& report)
      : options_(options),
        report_(report),
        sides_(SidesOf(options)),
        evidence_(report, options.seed) {}

  Status Run() {
    LAGOON_RETURN_IF_ERROR(Open());
    LoadRun run(options_, lagoon_->standalone(), report_, evidence_);
    std::vector<std::string> names;
    for (const auto& [name, measure] : systems_) names.push_back(name);
    const std::size_t steps = options_.sigmas.size() * options_.loads.size() * names.size();
    ProgressBar progress("bench load", static_cast<int>(steps) * options_.windows);
    LAGOON_RETURN_IF_ERROR(
        run.Run(names, [&](const LoadPlace& place) { return MeasureAt(run, place, progress); }));
    evidence_.Finish();
    return {};
  }

 private:
  using Measure = std::function<Status(const DisbWindow&, SystemResult&)>;

  Status Open() {
    LAGOON_ASSIGN_OR_RETURN(lagoon_, LagoonSide::Open(sides_));
    for (const std::string& name : options_.schedulers) {
      systems_[name] = [this, name](const DisbWindow& window, SystemResult& seen) {
        return lagoon_->Measure(name, DisbLoad::Late::kQueue, window, kAll, seen);
      };
    }
    if (!options_.against_onnxruntime) return {};
    LAGOON_ASSIGN_OR_RETURN(onnxruntime_, OnnxRuntimeSide::Open(sides_, "plain"));
    systems_[kOnnxRuntime] = [this](const DisbWindow& window, SystemResult& seen) {
      return onnxruntime_->Measure(DisbLoad::Late::kQueue, window, kAll, seen);
    };
    return {};
  }

  Result<LoadRun::Trials> MeasureAt(const LoadRun& run, const LoadPlace& place,
                                    ProgressBar& progress) {
    WindowsPlan plan{.groups = {place.name}, .windows = place.systems, .rounds = options_.windows};
    plan.seed = options_.seed;
    LoadRun::Trials seen(place.systems.size());
    const auto measure = [&](const WindowPlace& at) -> Status {
      std::vector<SystemResult>& trials = seen[at.window];
      trials.resize(at.trial + 1, SystemResult(options_.models.size()));
      const std::string& system = place.systems[at.window];
      progress.Step(system);
      return systems_.at(system)(run.WindowOf(place, at.round), trials[at.trial]);
    };
    HostProbe probe;
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
    evidence_.AddWindows(result.summary);
    LoadRun::Trials counted(seen.size());
    for (std::size_t i = 0; i < seen.size(); ++i) {
      for (const std::size_t trial : result.trials[0]) counted[i].push_back(seen[i][trial]);
    }
    return counted;
  }

  const RandomLoadOptions& options_;
  Report& report_;
  const DisbOptions sides_;
  Evidence evidence_;
  std::unique_ptr<LagoonSide> lagoon_;
  std::unique_ptr<OnnxRuntimeSide> onnxruntime_;
  std::map<std::string, Measure> systems_;
};

}  // namespace

Status RunRandomLoad(const RandomLoadOptions& options, Report& report) {
  return RandomLoadBenchmark(options, report).Run();
}

}  // namespace lagoon::bench
