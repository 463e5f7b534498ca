#include "bench/process/levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "bench/client/bound_model.h"
#include "bench/measure/evidence.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"

namespace lagoon::bench {
namespace {

constexpr int kWarmUpRuns = 3;

/// A level or an engine, and its process.
struct LevelSide {
  std::string name;
  std::unique_ptr<ComparatorProcess> process;
  int runs = 1;  // in a turn
};

class LevelsBenchmark {
 public:
  LevelsBenchmark(const LevelsOptions& options, Report& report)
      : options_(options),
        report_(report),
        evidence_(report, options.seed),
        progress_("bench models --levels",
                  static_cast<int>(options.models.size() * options.workers.size() *
                                   options.batches.size() * SideCount()) *
                      options.rounds) {}

  Status BenchModel(const std::string& model, std::uint32_t workers, std::int64_t batch) {
    LAGOON_ASSIGN_OR_RETURN(std::vector<LevelSide> sides, Start(model, workers, batch));
    const std::string setting = fmt::format("{}.w{}.b{}", model, workers, batch);
    WindowsPlan plan{.groups = {setting}, .rounds = options_.rounds, .seed = options_.seed};
    for (const LevelSide& side : sides) plan.windows.push_back(side.name);
    std::vector<std::vector<double>> trials;  // the medians of each side, in milliseconds
    const auto measure = [&](const WindowPlace& place) -> Status {
      if (trials.size() <= place.trial) trials.emplace_back(sides.size());
      const LevelSide& side = sides[place.window];
      LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, side.process->Run(side.runs, 1));
      trials[place.trial][place.window] = Median(us) / 1e3;
      progress_.Step(setting);
      return {};
    };
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe_, Now, measure));
    evidence_.AddWindows(result.summary);
    std::vector<std::vector<double>> counted;
    for (const std::size_t trial : result.trials[0]) counted.push_back(trials[trial]);
    ReportSetting(setting, sides, counted);
    return {};
  }

  void Finish() { evidence_.Finish(); }

 private:
  std::size_t SideCount() const { return options_.levels.size() + options_.engines.size(); }

  /// The levels, then the engines.
  Result<std::vector<LevelSide>> Start(const std::string& model, std::uint32_t workers,
                                       std::int64_t batch) const {
    std::vector<LevelSide> sides;
    for (std::size_t i = 0; i < SideCount(); ++i) {
      const bool own = i < options_.levels.size();
      ComparatorOptions one = options_.comparator;
      one.engine = own ? "lagoon" : options_.engines[i - options_.levels.size()];
      one.level = own ? options_.levels[i] : "";
      one.threads = static_cast<int>(workers);
      one.batch = batch;
      LevelSide& side = sides.emplace_back();
      side.name = own ? one.level : one.engine;
      LAGOON_ASSIGN_OR_RETURN(side.process,
                              ComparatorProcess::Start(ModelFile(options_.zoo, model), one));
      LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, side.process->Run(1, kWarmUpRuns));
      side.runs = std::max(1, static_cast<int>(options_.seconds * 1e6 / std::max(us[0], 1.0)));
    }
    return sides;
  }

  void ReportSetting(const std::string& setting, const std::vector<LevelSide>& sides,
                     const std::vector<std::vector<double>>& trials) {
    const std::size_t levels = options_.levels.size();
    for (std::size_t side = 0; side < sides.size(); ++side) {
      std::vector<double> all_ms, over_last, over_best;
      for (const std::vector<double>& trial : trials) {
        all_ms.push_back(trial[side]);
        over_last.push_back(trial[side] / trial[levels - 1]);
        double best = std::numeric_limits<double>::infinity();
        for (std::size_t i = levels; i < trial.size(); ++i) best = std::min(best, trial[i]);
        over_best.push_back(trial[side] / best);
      }
      const std::string name = fmt::format("{}.{}", setting, sides[side].name);
      report_.Metric("latency_ms_p50." + name, Median(all_ms));
      if (side >= levels) continue;
      evidence_.Add("level_ratio." + name, over_last);
      if (options_.engines.size() >= 2) evidence_.Add("latency_ratio_vs_best." + name, over_best);
    }
  }

  const LevelsOptions& options_;
  Report& report_;
  Evidence evidence_;
  ProgressBar progress_;
  HostProbe probe_;
};

}  // namespace

Status RunLevels(const LevelsOptions& options, Report& report) {
  LevelsBenchmark benchmark(options, report);
  for (const std::string& model : options.models) {
    for (const std::uint32_t workers : options.workers) {
      for (const std::int64_t batch : options.batches) {
        if (Status status = benchmark.BenchModel(model, workers, batch); !status) {
          return Annotate(model, std::move(status).error());
        }
      }
    }
  }
  benchmark.Finish();
  return {};
}

}  // namespace lagoon::bench
