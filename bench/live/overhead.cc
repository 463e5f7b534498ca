#include "bench/live/overhead.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <iterator>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "base/heap.h"
#include "base/log.h"
#include "bench/client/infer_client.h"
#include "bench/client/temporary_repository.h"
#include "bench/measure/evidence.h"
#include "bench/measure/statistics.h"
#include "bench/measure/windows.h"
#include "client/channel_client.h"
#include "server/server.h"
#include "serving/open_core.h"

namespace lagoon::bench {
namespace {

constexpr int kWarmUp = 20;
constexpr const char* kChannelMeans = "channel_means";
constexpr const char* kSmallMeans = "small_means";
constexpr std::int64_t kResNetInput[] = {1, 3, 224, 224};
constexpr std::int64_t kSmallInput[] = {1, 3, 2, 2};

// The times of all requests of one window.
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

Status InferMany(InferClient& client, int requests, Timings* timings) {
  for (int i = 0; i < requests; ++i) {
    LAGOON_ASSIGN_OR_RETURN(const Timing timing, client.Infer());
    if (timings != nullptr) timings->Add(timing);
  }
  return {};
}

std::vector<float> RandomInput(const TensorSpec& spec) {
  std::vector<float> input(static_cast<std::size_t>(ElementCount(spec.dims)));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (float& value : input) value = normal(random);
  return input;
}

// One protocol and one model.
struct Series {
  std::string name;  // ends the names of the metrics
  std::unique_ptr<InferClient> client;
  std::vector<Timings> trials;
};

Result<std::vector<Series>> Connect(Inference& core, const Server& server, const std::string& path,
                                    const std::string& model, const std::string& suffix) {
  LAGOON_ASSIGN_OR_RETURN(const ModelMetadata metadata, core.Metadata(model, ""));
  ClientTarget target{.address = "127.0.0.1",
                      .port = server.http_port(),
                      .model = model,
                      .outputs = {metadata.outputs.front().name}};
  std::vector<Series> series(5);
  series[0].name = "http" + suffix;
  LAGOON_ASSIGN_OR_RETURN(series[0].client, ConnectHttp(target));
  target.port = server.grpc_port();
  series[1].name = "grpc" + suffix;
  LAGOON_ASSIGN_OR_RETURN(series[1].client, ConnectGrpc(target));
  target.shared_memory = true;
  series[2].name = "grpc_shm" + suffix;
  LAGOON_ASSIGN_OR_RETURN(series[2].client, ConnectGrpc(target));
  target.address = path;
  series[3].name = "channel" + suffix;
  series[3].client = ConnectChannel(target);
  series[4].name = "process" + suffix;
  series[4].client = ConnectCore(core, target);
  TensorSpec spec = metadata.inputs.front();
  // A request of one row, where the model takes any number.
  std::ranges::replace_if(
      spec.dims, [](std::int64_t dim) { return dim < 0; }, 1);
  const std::vector<float> values = RandomInput(spec);
  const InputTensor input{spec.name, DataType::kFloat32, spec.dims,
                          std::as_bytes(std::span(values))};
  for (const Series& one : series) {
    LAGOON_RETURN_IF_ERROR(one.client->Prepare(std::span(&input, 1)));
  }
  return series;
}

void AddMetrics(const Series& series, const std::vector<std::size_t>& trials, Evidence& evidence,
                Report& report) {
  std::vector<double> overhead, medians;
  std::map<std::string, std::vector<double>> stages_us;
  for (const std::size_t trial : trials) {
    const Timings& timings = series.trials[trial];
    overhead.insert(overhead.end(), timings.overhead_us.begin(), timings.overhead_us.end());
    medians.push_back(Median(timings.overhead_us));
    for (const auto& [stage, us] : timings.stages_us) {
      stages_us[stage].insert(stages_us[stage].end(), us.begin(), us.end());
    }
  }
  evidence.Add("overhead_us_p50." + series.name, medians);
  const int tail = overhead.size() >= kSamplesForP99 ? 99 : 90;
  report.Metric(fmt::format("overhead_us_p{}.{}", tail, series.name), Percentile(overhead, tail));
  for (const auto& [stage, us] : stages_us) {
    report.Metric(fmt::format("stage_us_p50.{}.{}", series.name, stage), Median(us));
  }
}

// Measures all protocols with all models, a window each per trial, in random order.
Status MeasureAll(const OverheadOptions& options, std::vector<Series>& all, Report& report) {
  for (Series& series : all) LAGOON_RETURN_IF_ERROR(InferMany(*series.client, kWarmUp, nullptr));
  ProgressBar progress("bench overhead", options.rounds * static_cast<int>(all.size()));
  WindowsPlan plan{.groups = {"overhead"}, .windows = {}, .rounds = options.rounds};
  for (const Series& series : all) plan.windows.push_back(series.name);
  const int requests = (options.requests + options.rounds - 1) / options.rounds;
  const auto measure = [&](const WindowPlace& place) -> Status {
    Series& series = all[place.window];
    series.trials.resize(place.trial + 1);
    LAGOON_RETURN_IF_ERROR(InferMany(*series.client, requests, &series.trials[place.trial]));
    progress.Step(series.name);
    return {};
  };
  HostProbe probe;
  LAGOON_ASSIGN_OR_RETURN(const WindowsResult result, MeasureWindows(plan, probe, Now, measure));
  Evidence evidence(report, plan.seed);
  for (const Series& series : all) AddMetrics(series, result.trials[0], evidence, report);
  evidence.AddWindows(result.summary);
  evidence.Finish();
  return {};
}

// ---- How many requests one client of a channel can send, and what a client's thread costs

// As Paella's Figure 14.
constexpr double kPacedPerSecond = 6700;
constexpr std::size_t kInFlight = 8;
constexpr std::chrono::seconds kLongestRead{60};

class ChannelLoad {
 public:
  static Result<ChannelLoad> Open(const ClientTarget& target, const ModelMetadata& model) {
    ChannelLoad load;
    std::string error;
    const TensorSpec &in = model.inputs.front(), &out = model.outputs.front();
    const channel::Tensor x{in.name, "FP32", in.dims, 0, in.bytes()};
    const channel::Tensor y{out.name, {}, {}, 4096, out.bytes()};
    load.client_ = channel::Client::Open(target.address, 8192, error);
    const auto call =
        load.client_ == nullptr
            ? std::nullopt
            : load.client_->Call(target.model, "", std::span(&x, 1), std::span(&y, 1), error);
    if (!call) return Fail(ErrorCode::kInternal, "channel: " + error);
    load.call_ = *call;
    return load;
  }

  // Requests a second with kInFlight in flight.
  Result<double> Rate(std::size_t requests) {
    const TimePoint begin = Now();
    std::size_t sent = 0;
    while (sent < kInFlight) client_->Submit({.tag = sent++, .call = call_});
    for (std::size_t read = 0; read < sent; ++read) {
      LAGOON_RETURN_IF_ERROR(Read());
      if (sent < requests) client_->Submit({.tag = sent++, .call = call_});
    }
    return static_cast<double>(sent) / std::chrono::duration<double>(Now() - begin).count();
  }

  struct Paced {
    double cpu_fraction = 0, per_second = 0;
  };
  // One request at a time, evenly spaced.
  Result<Paced> Pace(std::size_t requests) {
    prctl(PR_SET_TIMERSLACK, 1);  // in ns; the default adds 50 us to every sleep
    const Nanoseconds cpu = ThreadCpuTime();
    const TimePoint begin = Now();
    for (std::size_t i = 0; i < requests; ++i) {
      const double due_ns = 1e9 * static_cast<double>(i) / kPacedPerSecond;
      std::this_thread::sleep_until(begin + Nanoseconds(static_cast<std::int64_t>(due_ns)));
      client_->Submit({.tag = i, .call = call_});
      LAGOON_RETURN_IF_ERROR(Read());
    }
    const double seconds = std::chrono::duration<double>(Now() - begin).count();
    return Paced{std::chrono::duration<double>(ThreadCpuTime() - cpu).count() / seconds,
                 static_cast<double>(requests) / seconds};
  }

 private:
  Status Read() {
    const auto got = client_->Read(answer_, kLongestRead);
    if (got == channel::Client::Got::kAnswer && answer_.code == 0) return {};
    return Fail(ErrorCode::kInternal, "channel: no answer: " + answer_.error);
  }

  std::unique_ptr<channel::Client> client_;
  std::uint32_t call_ = 0;
  channel::Answer answer_;
};

Status MeasureChannel(const ClientTarget& target, const Inference& core,
                      const OverheadOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const ModelMetadata model, core.Metadata(target.model, ""));
  LAGOON_ASSIGN_OR_RETURN(ChannelLoad load, ChannelLoad::Open(target, model));
  const auto requests =
      std::max<std::size_t>(kInFlight, static_cast<std::size_t>(options.requests));
  std::vector<double> rates, fractions, paced_rates;
  for (int round = 0; round < options.rounds; ++round) {
    LAGOON_ASSIGN_OR_RETURN(const double rate, load.Rate(requests));
    LAGOON_ASSIGN_OR_RETURN(const ChannelLoad::Paced paced, load.Pace(requests));
    rates.push_back(rate);
    fractions.push_back(paced.cpu_fraction);
    paced_rates.push_back(paced.per_second);
  }
  report.Metric("channel_requests_per_s", Median(rates));
  report.Metric("channel_client_cpu_fraction", Median(fractions));
  report.Metric("channel_paced_requests_per_s", Median(paced_rates));
  return {};
}

}  // namespace

Status RunOverhead(const OverheadOptions& options, Report& report) {
  spdlog::set_level(spdlog::level::warn);
  LAGOON_ASSIGN_OR_RETURN(TemporaryRepository repository,
                          TemporaryRepository::Link(options.zoo, {options.model}));
  LAGOON_RETURN_IF_ERROR(repository.AddChannelMeans(kChannelMeans, kResNetInput));
  LAGOON_RETURN_IF_ERROR(repository.AddChannelMeans(kSmallMeans, kSmallInput));
  CoreOptions core_options;
  core_options.repository = repository.path();
  core_options.device.workers = options.workers;
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Inference> core, OpenCore(core_options));
  ServerOptions server_options;
  server_options.http_port = server_options.grpc_port = server_options.metrics_port = 0;
  server_options.channel = repository.path() + ".channel";
  KeepFreedMemory();  // as `lagoon serve`
  LAGOON_ASSIGN_OR_RETURN(const std::unique_ptr<Server> server,
                          Server::Start(*core, server_options));

  std::vector<Series> all;
  const std::pair<std::string, std::string> models[] = {
      {kChannelMeans, ""}, {kSmallMeans, ".small"}, {options.model, "." + options.model}};
  for (const auto& [model, suffix] : models) {
    LAGOON_ASSIGN_OR_RETURN(std::vector<Series> more,
                            Connect(*core, *server, server_options.channel, model, suffix));
    std::ranges::move(more, std::back_inserter(all));
  }

  Status measured = MeasureAll(options, all, report);
  if (measured) {
    measured = MeasureChannel({server_options.channel, 0, kSmallMeans}, *core, options, report);
  }
  server->Stop(Now() + std::chrono::seconds(5));
  return measured;
}

}  // namespace lagoon::bench
