#include "bench/load_run.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "bench/measure/statistics.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;

// A system that ends fewer of its jobs in time gets no larger load.
constexpr double kKeepsUp = 0.7;
constexpr double kTimesAlone = 10;  // load_at_ten_times_alone

// What a system did in some windows.
struct Seen {
  std::vector<double> all_ms;
  std::vector<std::vector<double>> by_model;
  double completed = 0, seconds = 0;

  explicit Seen(std::size_t models) : by_model(models) {}
  void Add(const SystemResult& trial) {
    for (std::size_t i = 0; i < trial.clients.size(); ++i) {
      const std::vector<double>& ms = trial.clients[i].contended_ms;
      all_ms.insert(all_ms.end(), ms.begin(), ms.end());
      by_model[i].insert(by_model[i].end(), ms.begin(), ms.end());
      completed += trial.clients[i].completed;
    }
    seconds += trial.seconds;
  }
};

int TailOf(std::size_t samples) { return samples >= kSamplesForP99 ? 99 : 90; }

MeasuredSystem SystemAt(const std::string& system, const std::string& place) {
  return {system + "." + place, system, "queue", place};
}

}  // namespace

std::vector<double> SharesOf(const std::vector<Nanoseconds>& alone, bool by_size) {
  std::vector<double> shares;
  double sum = 0;
  for (const Nanoseconds time : alone) {
    shares.push_back(by_size ? 1 / Seconds(time).count() : 1);
    sum += shares.back();
  }
  for (double& share : shares) share /= sum;
  return shares;
}

std::string LoadTable(const Report& report) {
  constexpr std::string_view kLine = "{:<32} {:>10} {:>24} {:>14}\n";
  std::string table = fmt::format(kLine, "system", "", "load at ten times alone", "saturated at");
  const nlohmann::json saturated = report.json().value("saturated", nlohmann::json::object());
  for (const MetricRow& row : report.rows()) {
    if (row.name.metric != "load_at_ten_times_alone") continue;
    const auto& [name, system, clients, sigma] = row.name.system;
    const auto of_system = saturated.find(system);
    const bool full = of_system != saturated.end() && of_system->contains(sigma);
    table += fmt::format(kLine, system, sigma, fmt::format("{:.3f}", row.value),
                         full ? fmt::format("{}", of_system->at(sigma).get<double>()) : "-");
  }
  return table;
}

LoadRun::LoadRun(const LoadRunOptions& options, const StandaloneTimes& standalone, Report& report,
                 Evidence& evidence)
    : options_(options), report_(report), evidence_(evidence) {
  ReportStandalone(standalone, report);
  std::vector<Nanoseconds> alone;
  for (const std::string& model : options.models) alone.push_back(standalone.at(model));
  shares_ = SharesOf(alone, options.by_size);
  for (std::size_t i = 0; i < shares_.size(); ++i) {
    mean_alone_ms_ += shares_[i] * ToMilliseconds(alone[i]);
  }
  report.Metric("jobs_per_second_at_load_1", 1e3 / mean_alone_ms_);
}

Status LoadRun::Run(const std::vector<std::string>& systems, const Measure& measure) {
  nlohmann::json saturated = nlohmann::json::object();
  bool first = true;
  for (const double sigma : options_.sigmas) {
    const std::string of_sigma = fmt::format("sigma{}", sigma);
    LoadPlace place{.sigma = sigma, .systems = systems};
    curves_.clear();
    for (const double load : options_.loads) {
      if (place.systems.empty()) break;
      place.load = load;
      place.name = fmt::format("{}.load{}", of_sigma, load);
      place.first = std::exchange(first, false);
      LAGOON_ASSIGN_OR_RETURN(const Trials trials, measure(place));
      std::vector<std::string> keep;
      for (std::size_t i = 0; i < place.systems.size(); ++i) {
        const std::string& system = place.systems[i];
        if (Write(place, system, trials[i])) {
          keep.push_back(system);
        } else {
          saturated[system][of_sigma] = load;
        }
      }
      place.systems = std::move(keep);
    }
    for (const auto& [system, points] : curves_) {
      report_.Metric({"load_at_ten_times_alone", SystemAt(system, of_sigma)},
                     LoadAt(points, kTimesAlone * mean_alone_ms_));
    }
  }
  report_.Field("saturated", saturated);
  return {};
}

DisbWindow LoadRun::WindowOf(const LoadPlace& place, std::size_t round) const {
  const LoadShape shape{place.sigma, options_.jobs, options_.seed + static_cast<unsigned>(round)};
  return MakeLoadWindow(shares_, shape, place.load * 1e3 / mean_alone_ms_);
}

// False: the system is saturated.
bool LoadRun::Write(const LoadPlace& place, const std::string& system,
                    const std::vector<SystemResult>& trials) {
  const std::size_t models = options_.models.size();
  Seen all(models);
  for (const SystemResult& trial : trials) all.Add(trial);
  const int percent = TailOf(all.all_ms.size());
  std::vector<double> tails;
  for (const SystemResult& trial : trials) {
    Seen one(models);
    one.Add(trial);
    tails.push_back(Percentile(one.all_ms, percent));
  }
  const MeasuredSystem of = SystemAt(system, place.name);
  const Interval tail = evidence_.Add({fmt::format("latency_ms_p{}", percent), of}, tails);
  curves_[system].push_back({place.load, tail.median});
  report_.Metric({"latency_ms_mean", of}, Mean(all.all_ms));
  report_.Metric({"latency_ms_p50", of}, Median(all.all_ms));
  report_.Metric({"per_second", of}, all.completed / all.seconds);
  for (std::size_t i = 0; i < models; ++i) {
    const std::vector<double>& ms = all.by_model[i];
    const std::string& model = options_.models[i];
    report_.Samples({of, model, std::string(Name(JobClass::kBestEffort))}, ms);
    if (ms.empty()) continue;
    const int of_model = TailOf(ms.size());
    report_.Metric({fmt::format("latency_ms_p{}", of_model), of, model}, Percentile(ms, of_model));
  }
  return all.completed >= kKeepsUp * static_cast<double>(all.all_ms.size());
}

}  // namespace lagoon::bench
