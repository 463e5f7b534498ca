#include "bench/process/process_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>

#include "bench/client/bound_model.h"
#include "bench/client/temporary_repository.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"

namespace lagoon::bench {
namespace {

constexpr const char* kBase = "base";
constexpr double kLeastMib = 1;
constexpr std::size_t kKinds = 3;
constexpr const char* kBaseNames[kKinds] = {"", "resident_base_mib", "peak_base_mib"};
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr const char* kNames[kKinds] = {"load_ms", "resident_mib", "peak_mib"};
constexpr const char* kRatios[kKinds] = {"load_ratio_vs_best", "resident_ratio_vs_best",
                                         "memory_ratio_vs_best"};

/// By kNames.
using Costs = std::array<double, kKinds>;

class ProcessCosts {
 public:
  ProcessCosts(const ProcessCostsOptions& options, Report& report, Evidence& evidence)
      : options_(options), report_(report), evidence_(evidence), sides_{"lagoon"} {
    sides_.insert(sides_.end(), options.engines.begin(), options.engines.end());
  }

  Result<std::vector<std::string>> Measure() {
    LAGOON_ASSIGN_OR_RETURN(TemporaryRepository models, TemporaryRepository::Link("", {}));
    const std::int64_t dims[] = {1, 3, 32, 32};
    LAGOON_RETURN_IF_ERROR(models.AddChannelMeans(kBase, dims));
    ProgressBar progress(
        "processes",
        static_cast<int>((options_.models.size() + 1) * sides_.size()) * options_.rounds);
    LAGOON_RETURN_IF_ERROR(MeasureModel(kBase, ModelFile(models.path(), kBase), progress));
    for (const std::string& name : options_.models) {
      LAGOON_RETURN_IF_ERROR(MeasureModel(name, ModelFile(options_.zoo, name), progress));
    }
    return undecided_;
  }

 private:
  /// kNone where an engine does not run the model.
  Result<Costs> CostsOf(const std::string& side, const std::string& file) const {
    ComparatorOptions one = options_.comparator;
    one.engine = side;
    one.threads = 1;
    const Result<std::unique_ptr<ComparatorProcess>> process = ComparatorProcess::Start(file, one);
    if (!process && side != sides_.front()) return Costs{kNone, kNone, kNone};
    if (!process) return tl::unexpected<Error>(process.error());
    const nlohmann::json& info = (*process)->info();
    return Costs{info.at("load_ms").get<double>(), info.at("rss_kib").get<double>() / 1024,
                 info.at("peak_rss_kib").get<double>() / 1024};
  }

  Status MeasureModel(const std::string& name, const std::string& file, ProgressBar& progress) {
    const WindowsPlan plan{.groups = {"process of " + name},
                           .windows = sides_,
                           .rounds = options_.rounds,
                           .seed = options_.seed};
    std::vector<std::vector<Costs>> trials;  // of each side
    const auto measure = [&](const WindowPlace& place) -> Status {
      if (trials.size() <= place.trial) trials.emplace_back(sides_.size());
      LAGOON_ASSIGN_OR_RETURN(trials[place.trial][place.window],
                              CostsOf(sides_[place.window], file));
      progress.Step(name);
      return {};
    };
    LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe_, Now, measure));
    evidence_.AddWindows(result.summary);
    std::vector<std::vector<Costs>> counted;
    for (const std::size_t trial : result.trials[0]) counted.push_back(trials[trial]);
    if (name == kBase) {
      ReportBase(counted);
      return {};
    }
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      ReportKind(name, kind, counted, result.Clean(0));
    }
    return {};
  }

  static std::vector<double> Of(const std::vector<std::vector<Costs>>& trials, std::size_t side,
                                std::size_t kind) {
    std::vector<double> all;
    for (const std::vector<Costs>& trial : trials) all.push_back(trial[side][kind]);
    return all;
  }

  void ReportBase(const std::vector<std::vector<Costs>>& trials) {
    for (std::size_t side = 0; side < sides_.size(); ++side) {
      Costs& base = bases_.emplace_back();
      for (std::size_t kind = 1; kind < kKinds; ++kind) {  // the time of loading stays whole
        base[kind] = Median(Of(trials, side, kind));
        report_.Metric(fmt::format("{}.{}", kBaseNames[kind], sides_[side]), base[kind]);
      }
    }
  }

  void ReportKind(const std::string& name, std::size_t kind,
                  const std::vector<std::vector<Costs>>& trials, bool clean) {
    for (std::size_t side = 0; side < sides_.size(); ++side) {
      const double cost = Median(Of(trials, side, kind)) - bases_[side][kind];
      if (std::isnan(cost)) continue;
      report_.Metric(fmt::format("{}.{}.{}", kNames[kind], name, sides_[side]), cost);
    }
    if (options_.engines.size() < 2) return;
    const double least = kind == 0 ? 0 : kLeastMib;
    std::vector<double> ratios;
    for (const std::vector<Costs>& trial : trials) {
      double best = std::numeric_limits<double>::infinity();
      const auto cost = [&](std::size_t side) {
        return std::max(trial[side][kind] - bases_[side][kind], least);
      };
      for (std::size_t side = 1; side < sides_.size(); ++side) {
        if (!std::isnan(trial[side][kind])) best = std::min(best, cost(side));
      }
      ratios.push_back(cost(0) / best);
    }
    const std::string metric = fmt::format("{}.{}", kRatios[kind], name);
    const Verdict verdict =
        evidence_.Target(metric, evidence_.Add(metric, ratios), Bound::kAtMost, 1, clean);
    if (verdict == Verdict::kUndecided) undecided_.push_back(metric);
  }

  const ProcessCostsOptions& options_;
  Report& report_;
  Evidence& evidence_;
  std::vector<std::string> sides_;
  std::vector<Costs> bases_;            // by side
  std::vector<std::string> undecided_;  // metrics
  HostProbe probe_;
};

}  // namespace

Result<std::vector<std::string>> MeasureProcessCosts(const ProcessCostsOptions& options,
                                                     Report& report, Evidence& evidence) {
  return ProcessCosts(options, report, evidence).Measure();
}

}  // namespace lagoon::bench
