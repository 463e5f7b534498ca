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

Status Measure(InferClient& client, std::span<const float> input, int requests, Timings* timings) {
  for (int i = 0; i < requests; ++i) {
    LAGOON_ASSIGN_OR_RETURN(const Timing timing, client.Infer(input));
    if (timings != nullptr) timings->Add(timing);
  }
  return {};
}

Result<ClientTarget> Target(const InferenceCore& core, const std::string& model) {
  LAGOON_ASSIGN_OR_RETURN(const ModelMetadata metadata, core.Metadata(model, ""));
  ClientTarget target;
  target.address = "127.0.0.1";
  target.model = model;
  target.input = metadata.inputs.front();
  target.output = metadata.outputs.front().name;
  return target;
}

}  // namespace

Status RunOverhead(const OverheadOptions& options, Report& report) {
  spdlog::set_level(spdlog::level::warn);
  LAGOON_ASSIGN_OR_RETURN(const TemporaryRepository repository,
                          TemporaryRepository::Link(options.zoo, {options.model}));
  CoreOptions core_options;
  core_options.repository = repository.path();
  core_options.workers = options.workers;
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<InferenceCore> core,
                          InferenceCore::Open(core_options));
  ServerOptions server_options;
  server_options.http_port = server_options.grpc_port = server_options.metrics_port = 0;
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                          Server::Start(*core, server_options));
  LAGOON_ASSIGN_OR_RETURN(ClientTarget target, Target(*core, options.model));

  target.port = server->http_port();
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<InferClient> http, ConnectHttp(target));
  target.port = server->grpc_port();
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<InferClient> grpc, ConnectGrpc(target));
  std::vector<float> input(static_cast<std::size_t>(ElementCount(target.input.dims)));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : input) value = normal(random);

  const std::pair<std::string, InferClient*> clients[] = {{"http", http.get()},
                                                          {"grpc", grpc.get()}};
  std::map<std::string, Timings> timings;
  Progress progress("bench overhead", options.rounds * 2);
  for (int round = 0; round < options.rounds; ++round) {
    for (const auto& [name, client] : clients) {
      if (round == 0) LAGOON_RETURN_IF_ERROR(Measure(*client, input, kWarmUp, nullptr));
      LAGOON_RETURN_IF_ERROR(
          Measure(*client, input, options.requests / options.rounds, &timings[name]));
      progress.Step(name);
    }
  }
  for (const auto& [name, seen] : timings) {
    report.Metric("overhead_us_p50." + name, Percentile(seen.overhead_us, 50));
    const int tail = seen.overhead_us.size() >= kSamplesForP99 ? 99 : 90;
    report.Metric(fmt::format("overhead_us_p{}.{}", tail, name),
                  Percentile(seen.overhead_us, tail));
    for (const auto& [stage, us] : seen.stages_us) {
      report.Metric(fmt::format("stage_us_p50.{}.{}", name, stage), Median(us));
    }
  }
  server->Stop(Now() + std::chrono::seconds(5));
  return {};
}

}  // namespace lagoon::bench
