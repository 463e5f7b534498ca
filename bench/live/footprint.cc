#include <fmt/format.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "bench/client/server_process.h"
#include "bench/client/temporary_repository.h"
#include "bench/live/overhead.h"
#include "bench/measure/statistics.h"
#include "serving/open_core.h"

namespace lagoon::bench {
namespace {

constexpr int kOpenings = 5;  // of each number of threads, in turns

/// How long a core takes to open, with its models prepared one after the other or at once.
Status MeasureOpening(const std::string& repository, Report& report) {
  std::map<unsigned, std::vector<double>> times_ms;  // by CoreOptions::load_threads
  for (int opening = 0; opening < kOpenings; ++opening) {
    for (const unsigned threads : {1U, 0U}) {
      CoreOptions options;
      options.repository = repository;
      options.load_threads = threads;
      const TimePoint begin = Now();
      LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Inference> core, OpenCore(options));
      times_ms[threads].push_back(ToMilliseconds(Now() - begin));
    }
  }
  report.Metric("open_ms.one_by_one", Median(times_ms[1]));
  report.Metric("open_ms.at_once", Median(times_ms[0]));
  return {};
}

Status MeasureServer(const FootprintOptions& options, const std::string& repository,
                     Report& report) {
  const TimePoint begin = Now();
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<ServerProcess> server,
                          ServerProcess::Start(options.lagoon, {"--models", repository}));
  report.Metric("serve_ready_ms", ToMilliseconds(Now() - begin));
  report.Metric("serve_peak_rss_mib", PeakRssMib(server->pid()));
  for (const std::string& model : options.models) {
    const nlohmann::json& row = server->ports().at("models").at(model);
    if (!row.at("ready").get<bool>()) {
      return Fail(ErrorCode::kInternal, fmt::format("model '{}' did not load", model));
    }
    report.Metric("load_ms." + model, row.at("load_ms").get<double>());
  }
  return {};
}

}  // namespace

Status RunFootprint(const FootprintOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const TemporaryRepository repository,
                          TemporaryRepository::Link(options.zoo, options.models));
  LAGOON_RETURN_IF_ERROR(MeasureServer(options, repository.path(), report));
  return MeasureOpening(repository.path(), report);
}

}  // namespace lagoon::bench
