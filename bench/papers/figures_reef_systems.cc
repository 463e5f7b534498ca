// Figures 28 to 30: the comparisons with Triton and Orion, and language models.

#include <fmt/format.h>

#include <array>
#include <map>

#include "bench/measure/statistics.h"
#include "bench/papers/figures_reef.h"
#include "bench/sim/disb_sim.h"
#include "bench/sim/sim_jobs.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;
using std::chrono::microseconds;

// The three models' sizes, from their model cards.
struct LanguageModel {
  std::string_view name;
  std::uint32_t layers;
  std::uint32_t hidden, queries, keys_and_values, inner, vocabulary;  // widths
};
constexpr LanguageModel kLanguageModels[] = {
    {"Llama3.2-3B", 28, 3072, 3072, 2 * 1024, 8192, 128256},
    {"Qwen2.5-3B", 36, 2048, 2048, 2 * 256, 11008, 151936},
    {"Gemma-2B", 18, 2048, 2048, 2 * 256, 16384, 256000},
};
// Tokens of a request (REEF 6.7); fewer with little effort.
int Tokens(const FigureOptions& options) { return options.effort < 0.1 ? 10 : 100; }

constexpr std::string_view kDevice = "gv100";

// The kernels of a request to a language model. No kernel list of such a model is published. A
// product with one row only reads its matrix (here of 16-bit values), so that its time follows from
// the memory's bandwidth. Attention over a few hundred tokens and the norms are assumed to take
// 3 us each.
class Decoder {
 public:
  Decoder(const SimConstants& device, const LanguageModel& model, int tokens) : device_(device) {
    for (std::uint32_t layer = 0; layer < model.layers; ++layer) {
      AddSmall(1);  // norm
      AddProduct(model.hidden, model.queries + model.keys_and_values);
      AddSmall(model.queries / 128);  // attention, by heads
      AddProduct(model.queries, model.hidden);
      AddSmall(1);
      AddProduct(model.hidden, 2 * model.inner);
      AddProduct(model.inner, model.hidden);
    }
    AddProduct(model.hidden, model.vocabulary);
    request_.statistics.device = kDevice;
    request_.statistics.model = model.name;
    const std::vector<SimModelKernel> token = request_.kernels;
    for (int i = 1; i < tokens; ++i) {
      request_.kernels.insert(request_.kernels.end(), token.begin(), token.end());
    }
    for (const SimModelKernel& kernel : request_.kernels) {
      request_.statistics.time += kernel.time + Nanoseconds(device.dependent_gap_ns);
    }
    request_.statistics.kernels = static_cast<std::uint32_t>(request_.kernels.size());
  }

  /// A whole request, all tokens one after the other.
  const SimModel& request() const { return request_; }

 private:
  void AddProduct(std::uint64_t rows, std::uint64_t columns) {
    const std::uint64_t bytes = 2 * rows * columns;
    const auto blocks = static_cast<std::uint32_t>(2 * device_.units);
    const Nanoseconds time(static_cast<std::int64_t>(
        bytes * 1000 / static_cast<std::uint64_t>(device_.memory_bytes_per_us)));
    Add(blocks, time, bytes / blocks);
  }
  void AddSmall(std::uint32_t blocks) { Add(blocks, microseconds(3), 0); }
  void Add(std::uint32_t blocks, Nanoseconds time, std::uint64_t bytes) {
    SimModelKernel& kernel = request_.kernels.emplace_back();
    kernel.blocks = blocks;
    kernel.time = kernel.block.time = time;
    kernel.block.threads = 256;
    kernel.block.registers_per_thread = 64;
    kernel.block.memory_bytes = bytes;
  }

  const SimConstants& device_;
  SimModel request_;
};

// DISB A with one model on both sides.
struct Conversation {
  double realtime_ms = 0;          // mean latency
  double requests_per_second = 0;  // of both clients
};

Result<Conversation> Converse(const GpuModel& gpu, const SimModel& model,
                              const std::string& scheduler, int requests, unsigned seed) {
  LAGOON_ASSIGN_OR_RETURN(DisbWorkload workload,
                          NamedDisbWorkload("A", DisbScale::kSimulated, seed));
  SimJobs jobs{std::string(kDevice), std::move(workload.clients), {}};
  for (DisbClient& client : jobs.clients) {
    client.model = model.statistics.model;
    client.load.late = DisbLoad::Late::kNewest;
  }
  jobs.models.emplace(model.statistics.model, model);
  LAGOON_ASSIGN_OR_RETURN(Scheduler made, MakeScheduler(scheduler));
  const SimAbort abort = AbortOf(made.config);
  LAGOON_ASSIGN_OR_RETURN(
      SimStage stage, SimStage::Open({.gpu = gpu, .abort = abort}, std::move(made), jobs.Queues()));
  // DISB A sends at half of the model's standalone maximum.
  const Nanoseconds span = 2 * requests * model.statistics.time;
  const std::vector<VirtualRun> runs =
      stage.Run(jobs.clients, jobs.Window(span), model.statistics.time);
  Conversation seen;
  double done = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    done += runs[i].completed;
    if (jobs.clients[i].job_class == JobClass::kRealTime) {
      seen.realtime_ms = Mean(runs[i].latencies_ms);
    }
  }
  seen.requests_per_second = done / std::chrono::duration<double>(span).count();
  return seen;
}

}  // namespace

// Triton's models have streams of MAX and MIN priority. REEF has no padding here, as the kernels'
// sources are closed (6.6).
Result<Figure> ReefFigure28(const FigureOptions& options) {
  constexpr std::array<std::string_view, 5> kWorkloads{"A", "B", "C", "D", "E"};
  const std::map<std::string_view, double> slower{{"A", 1.21}, {"B", 1.21}, {"C", 2.8}};
  const std::map<std::string_view, double> over_reef{{"A", 1.12}, {"E", 5.2}};
  const std::string triton = "stream-priority", reef = "reset";
  Figure figure;
  FigurePanel latency{"Real-time latency / standalone, mean", "workload", "", {}};
  FigurePanel throughput{"Throughput of all clients / standalone", "workload", "", {}};
  std::map<std::string, std::vector<double>> latencies, throughputs;
  for (std::size_t i = 0; i < kWorkloads.size(); ++i) {
    const std::string workload(kWorkloads[i]);
    LAGOON_ASSIGN_OR_RETURN(const Json metrics, DisbMetrics(std::string(kDevice), workload,
                                                            {triton, reef}, options, "trt-"));
    latency.groups.push_back(workload);
    throughput.groups.push_back(workload);
    for (const std::string& system : {triton, reef}) {
      const double seen = metrics.at("realtime_latency_normalized_mean." + system);
      const double done = metrics.at("throughput_normalized." + system);
      latencies[system].push_back(seen);
      throughputs[system].push_back(done);
      latency.Add(system, static_cast<double>(i), seen);
      throughput.Add(system, static_cast<double>(i), done);
    }
    const double of_triton = latencies[triton].back(), of_reef = latencies[reef].back();
    const std::string ending = "." + workload;
    if (const auto paper = slower.find(workload); paper != slower.end()) {
      figure.CompareGain(fmt::format("realtime_latency_normalized_mean.{}{}", triton, ending),
                         paper->second, of_triton, "REEF 6.6");
    }
    if (const auto paper = over_reef.find(workload); paper != over_reef.end()) {
      figure.CompareGain("latency.stream-priority_over_reset" + ending, paper->second,
                         of_triton / of_reef, "REEF 6.6");
    }
    if (workload != "C") continue;
    figure.CompareGain("realtime_latency_normalized_mean.reset.C", 1.05, of_reef,
                       "REEF 6.6 (in C; at most 1.09)");
  }
  figure.Find("realtime_latency_normalized_mean_of_all.reset", Mean(latencies[reef]));
  figure.CompareGain("throughput_normalized_mean_of_all.stream-priority", 1.21,
                     Mean(throughputs[triton]), "REEF 6.6");
  figure.CompareGain("throughput_normalized_mean_of_all.reset", 1.11, Mean(throughputs[reef]),
                     "REEF 6.6");
  figure.panels = {std::move(latency), std::move(throughput)};
  return figure;
}

// Orion submits one kernel at a time. REEF has no padding here, as the kernels' sources are closed
// (6.6).
Result<Figure> ReefFigure29(const FigureOptions& options) {
  struct Workload {
    std::string_view name;
    double p99;  // Orion's p99, relative to the time alone
  };
  constexpr std::array kWorkloads{Workload{"A", 1.05}, Workload{"B", 1.05}, Workload{"C", 1.17}};
  const std::vector<std::string> systems = {"one-kernel", "reset"};
  Figure figure;
  FigurePanel latency{"p99 of real-time requests / standalone", "workload", "", {}};
  FigurePanel throughput{"Throughput of all clients / standalone", "workload", "", {}};
  for (std::size_t i = 0; i < kWorkloads.size(); ++i) {
    const std::string workload(kWorkloads[i].name);
    LAGOON_ASSIGN_OR_RETURN(const Json metrics, DisbMetrics(std::string(kDevice), workload, systems,
                                                            options, "torch-"));
    latency.groups.push_back(workload);
    throughput.groups.push_back(workload);
    // Reports have a p99 from 1,000 requests on, else a p90.
    const std::string tail =
        metrics.contains("realtime_latency_normalized_p99.reset") ? "p99" : "p90";
    for (const std::string& system : systems) {
      const double seen =
          metrics.at(fmt::format("realtime_latency_normalized_{}.{}", tail, system));
      latency.Add(system, static_cast<double>(i), seen);
      throughput.Add(system, static_cast<double>(i), metrics.at("throughput_normalized." + system));
      const double most = system == "reset" ? 1.05 : kWorkloads[i].p99;
      const std::pair<double, double> paper{system == "reset" ? 1 : most, most};
      figure.CompareGainRange(
          fmt::format("realtime_latency_normalized_{}.{}.{}", tail, system, workload), paper, seen,
          "REEF 6.6");
    }
  }
  const auto in_c = [&](std::size_t system) { return throughput.series[system].y.back(); };
  figure.CompareGain("throughput_normalized.one-kernel.C", 0.97, in_c(0), "REEF 6.6");
  figure.CompareGain("throughput_normalized.reset.C", 1.14, in_c(1), "REEF 6.6");
  figure.panels = {std::move(latency), std::move(throughput)};
  return figure;
}

Result<Figure> ReefFigure30(const FigureOptions& options) {
  const int tokens = Tokens(options);
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel(std::string(kDevice)));
  Figure figure;
  FigurePanel latency{"Real-time request of 100 tokens / standalone", "model", "", {}};
  FigurePanel throughput{"Tokens a second of both clients", "model", "", {}};
  for (std::size_t i = 0; i < std::size(kLanguageModels); ++i) {
    const LanguageModel& model = kLanguageModels[i];
    const std::string name(model.name);
    const Decoder decoder(gpu.constants, model, tokens);
    latency.groups.push_back(name);
    throughput.groups.push_back(name);
    std::map<std::string, Conversation> seen;
    for (const std::string system : {"streams", "reef"}) {
      LAGOON_ASSIGN_OR_RETURN(
          seen[system], Converse(gpu, decoder.request(), system, options.Scaled(20), options.seed));
      const auto at = static_cast<double>(i);
      latency.Add(system, at,
                  seen[system].realtime_ms / ToMilliseconds(decoder.request().statistics.time));
      throughput.Add(system, at, seen[system].requests_per_second * tokens);
    }
    figure.CompareGainRange("latency.streams_over_reef." + name, {1.56, 1.81},
                            seen["streams"].realtime_ms / seen["reef"].realtime_ms, "REEF 6.7");
    figure.CompareRange("tokens_per_second.reef_over_streams." + name, {0.95, 1},
                        seen["reef"].requests_per_second / seen["streams"].requests_per_second,
                        "REEF 6.7");
    figure.Find("ms_per_token_alone." + name,
                ToMilliseconds(decoder.request().statistics.time) / tokens);
  }
  figure.panels = {std::move(latency), std::move(throughput)};
  return figure;
}

}  // namespace lagoon::bench
