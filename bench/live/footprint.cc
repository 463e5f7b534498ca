#include <fmt/format.h>

#include "base/time.h"
#include "bench/client/server_process.h"
#include "bench/client/temporary_repository.h"
#include "bench/live/overhead.h"

namespace lagoon::bench {

Status RunFootprint(const FootprintOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const TemporaryRepository repository,
                          TemporaryRepository::Link(options.zoo, options.models));
  const TimePoint begin = Now();
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<ServerProcess> server,
                          ServerProcess::Start(options.lagoon, {"--models", repository.path()}));
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

}  // namespace lagoon::bench
