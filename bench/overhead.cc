#include "bench/overhead.h"

#include <fmt/format.h>

#include <filesystem>
#include <random>

#include "base/log.h"
#include "bench/infer_client.h"
#include "bench/statistics.h"
#include "bench/temporary_repository.h"
#include "server/server.h"
#include "serving/core.h"

namespace lagoon::bench {
namespace {

constexpr int kWarmUp = 20;
constexpr const char* kChannelMeans = "channel_means";
constexpr std::int64_t kResNetInput[] = {1, 3, 224, 224};

// All requests of one protocol.
struct Timings {
  std::vector<double> overhead_us;
  std::map<std::string, std::vector<double>> stages_us;

  void Add(const Timing& timing) {
    double covered = 0;
    for (const auto& [stage, us] : timing.stages_us) {
      stages_us[stage].push_back(us);
      covered += us;
    }
    stages_us["wire"].push_back(timing.total_us - covered);
    const auto infer = timing.stages_us.find("compute_infer");
    LAGOON_CHECK(infer != timing.stages_us.end());
    overhead_us.push_back(timing.total_us - infer->second);
  }
};

Status Measure(InferClient& client, int requests, Timings* timings) {
  for (int i = 0; i < requests; ++i) {
    LAGOON_ASSIGN_OR_RETURN(const Timing timing, client.Infer());
    if (timings != nullptr) timings->Add(timing);
  }
  return {};
}

// One protocol and one model.
struct Series {
  std::string name;  // of its metrics
  std::unique_ptr<InferClient> client;
  Timings timings;
};

Result<ClientTarget> Target(const InferenceCore& core, const std::string& model) {
  LAGOON_ASSIGN_OR_RETURN(const ModelMetadata metadata, core.Metadata(model, ""));
  ClientTarget target;
  target.address = "127.0.0.1";
  target.model = model;
  target.input = metadata.inputs.front();
  target.output = metadata.outputs.front().name;
  return target;
}

std::vector<float> RandomInput(const TensorSpec& spec) {
  std::vector<float> input(static_cast<std::size_t>(ElementCount(spec.dims)));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : input) value = normal(random);
  return input;
}

Result<std::vector<Series>> Connect(const InferenceCore& core, const Server& server,
                                    const std::string& model, const std::string& suffix) {
  LAGOON_ASSIGN_OR_RETURN(ClientTarget target, Target(core, model));
  std::vector<Series> series(2);
  target.port = server.http_port();
  series[0].name = "http" + suffix;
  LAGOON_ASSIGN_OR_RETURN(series[0].client, ConnectHttp(target));
  target.port = server.grpc_port();
  series[1].name = "grpc" + suffix;
  LAGOON_ASSIGN_OR_RETURN(series[1].client, ConnectGrpc(target));
  const std::vector<float> input = RandomInput(target.input);
  for (const Series& one : series) LAGOON_RETURN_IF_ERROR(one.client->Prepare(input));
  return series;
}

void AddMetrics(const Series& series, Report& report) {
  const std::vector<double>& overhead = series.timings.overhead_us;
  report.Metric("overhead_us_p50." + series.name, Percentile(overhead, 50));
  const int tail = overhead.size() >= kSamplesForP99 ? 99 : 90;
  report.Metric(fmt::format("overhead_us_p{}.{}", tail, series.name), Percentile(overhead, tail));
  for (const auto& [stage, us] : series.timings.stages_us) {
    report.Metric(fmt::format("stage_us_p50.{}.{}", series.name, stage), Median(us));
  }
}

}  // namespace

Status RunOverhead(const OverheadOptions& options, Report& report) {
  spdlog::set_level(spdlog::level::warn);
  LAGOON_ASSIGN_OR_RETURN(TemporaryRepository repository,
                          TemporaryRepository::Link(options.zoo, {options.model}));
  LAGOON_RETURN_IF_ERROR(repository.AddChannelMeans(kChannelMeans, kResNetInput));
  CoreOptions core_options;
  core_options.repository = repository.path();
  core_options.device.workers = options.workers;
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<InferenceCore> core,
                          InferenceCore::Open(core_options));
  ServerOptions server_options;
  server_options.http_port = server_options.grpc_port = server_options.metrics_port = 0;
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                          Server::Start(*core, server_options));

  LAGOON_ASSIGN_OR_RETURN(std::vector<Series> all, Connect(*core, *server, kChannelMeans, ""));
  LAGOON_ASSIGN_OR_RETURN(std::vector<Series> behind,
                          Connect(*core, *server, options.model, "." + options.model));
  std::move(behind.begin(), behind.end(), std::back_inserter(all));

  Progress progress("bench overhead", options.rounds * static_cast<int>(all.size()));
  for (int round = 0; round < options.rounds; ++round) {
    for (Series& series : all) {
      if (round == 0) LAGOON_RETURN_IF_ERROR(Measure(*series.client, kWarmUp, nullptr));
      LAGOON_RETURN_IF_ERROR(
          Measure(*series.client, options.requests / options.rounds, &series.timings));
      progress.Step(series.name);
    }
  }
  for (const Series& series : all) AddMetrics(series, report);
  server->Stop(Now() + std::chrono::seconds(5));
  return {};
}

}  // namespace lagoon::bench
