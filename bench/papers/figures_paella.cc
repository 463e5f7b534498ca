// Figures 1, 2 and 9: what happens to kernels in queues.

#include "bench/papers/figures_paella.h"

#include <fmt/format.h>

#include <array>
#include <map>

#include "bench/measure/statistics.h"
#include "bench/sim/load.h"
#include "bench/sim/sim_jobs.h"

namespace lagoon::bench {
namespace {

using std::chrono::milliseconds;

// A device with two units, on which only the kernels take time.
GpuModel TwoUnits(std::int64_t queues) {
  GpuModel gpu;
  gpu.name = "two units";
  SimConstants& c = gpu.constants;
  c.units = 2;
  c.blocks_per_unit = 16;
  c.threads_per_unit = 1024;
  c.registers_per_unit = c.shared_bytes_per_unit = 65536;
  c.memory_mib = 64;
  c.memory_bytes_per_us = c.copy_bytes_per_us = 1'000'000;
  c.hardware_queues = queues;
  c.copy_engines = 1;
  c.check_interval_ns = 5000;
  c.share_granule = 1;
  return gpu;
}

// A chain of kernels, each of one block.
SimModel Chain(std::string_view name, std::size_t kernels, Nanoseconds time,
               std::uint32_t threads) {
  SimModelKernel kernel;
  kernel.blocks = 1;
  kernel.time = kernel.block.time = time;
  kernel.block.threads = threads;
  SimModel model;
  model.statistics.device = "t4";
  model.statistics.model = name;
  model.statistics.kernels = static_cast<std::uint32_t>(kernels);
  model.statistics.time = time * static_cast<std::int64_t>(kernels);
  model.kernels.assign(kernels, kernel);
  return model;
}

// The ends of four tasks, each of three kernels of one time unit (1 ms), all submitted at time 0.
Result<std::vector<double>> TaskEnds(std::int64_t queues, Scheduler scheduler) {
  const SimModel task = Chain("task", 3, milliseconds(1), 0);
  const SimJobs jobs = SimJobs::Loops("", task, 4);
  LAGOON_ASSIGN_OR_RETURN(SimStage stage, SimStage::Open({.gpu = TwoUnits(queues)},
                                                         std::move(scheduler), jobs.Queues()));
  std::vector<DisbClient> clients = jobs.clients;
  for (DisbClient& client : clients) client.load.kind = DisbLoad::Kind::kTrace;
  const DisbWindow window{milliseconds(20), {4, {Nanoseconds(0)}}};
  std::vector<double> ends;
  for (const VirtualRun& run : stage.Run(clients, window, Nanoseconds(0))) {
    ends.push_back(run.latencies_ms.front());
  }
  return ends;
}

}  // namespace

Result<Figure> PaellaFigure1(const FigureOptions& /*options*/) {
  struct Way {
    std::string name;
    std::int64_t queues;
    Scheduler scheduler;
    std::vector<double> paper;
  };
  LAGOON_ASSIGN_OR_RETURN(Scheduler one, MakeScheduler("job-streams"));
  LAGOON_ASSIGN_OR_RETURN(Scheduler many, MakeScheduler("job-streams"));
  LAGOON_ASSIGN_OR_RETURN(Scheduler paella, MakeScheduler("paella"));
  LAGOON_ASSIGN_OR_RETURN(Scheduler tight, MakeScheduler("paella"));
  // Without this, 8 blocks beyond what fits the device would be all blocks of this small example.
  tight.config.extra_blocks = 0;
  std::vector<Way> ways;
  ways.push_back({"one queue", 1, std::move(one), {3, 5, 7, 9}});
  ways.push_back({"a queue per task", 32, std::move(many), {5, 5, 6, 6}});
  ways.push_back({"paella", 32, std::move(paella), {}});
  ways.push_back({"paella, nothing ahead", 32, std::move(tight), {3, 3, 6, 6}});
  Figure figure;
  FigurePanel panel{"When each task ends", "", "time", {}};
  for (std::size_t i = 0; i < ways.size(); ++i) {
    Way& way = ways[i];
    panel.groups.push_back(way.name);
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> ends,
                            TaskEnds(way.queues, std::move(way.scheduler)));
    for (std::size_t task = 0; task < ends.size(); ++task) {
      panel.Add(fmt::format("task {}", "ABCD"[task]), static_cast<double>(i), ends[task]);
    }
    if (way.paper.empty()) {
      figure.Find("mean_end." + way.name, Mean(ends));
    } else {
      figure.Compare("mean_end." + way.name, Mean(way.paper), Mean(ends), "Paella Fig. 1");
    }
  }
  figure.panels.push_back(std::move(panel));
  return figure;
}

Result<Figure> PaellaFigure2(const FigureOptions& options) {
  LoadMix mix;
  LAGOON_ASSIGN_OR_RETURN(mix.gpu, LoadGpuModel("gtx1660s"));
  mix.models = {PaellaFigure2Job()};
  mix.shares = {1};
  mix.instances = 512;
  constexpr double kAloneMs = 2.4, kLimitMs = 10 * kAloneMs;
  Figure figure;
  FigurePanel panel{"Jobs of eight small kernels", "jobs a second, offered", "p99, ms", {}};
  panel.log_x = panel.log_y = true;
  std::map<std::string, double> goodput;
  for (const std::string scheduler : {"job-streams", "paella"}) {
    std::vector<LoadPoint> points;
    for (double load = 2000; load < 140'000; load *= 1.26) {
      LAGOON_ASSIGN_OR_RETURN(Scheduler made, MakeScheduler(scheduler));
      const LoadShape shape{0, options.Scaled(8000), options.seed};
      LAGOON_ASSIGN_OR_RETURN(const LoadResult seen, RunLoad(mix, shape, load, std::move(made)));
      points.push_back({load, Percentile(seen.latencies_ms, 99)});
      panel.Add(scheduler, load, points.back().value);
      if (points.back().value > 3 * kLimitMs) break;
    }
    goodput[scheduler] = LoadAt(points, kLimitMs);
    figure.Find("jobs_per_second_at_p99_24_ms." + scheduler, goodput[scheduler]);
  }
  figure.CompareGain("goodput.paella_over_job-streams", 2.2,
                     goodput["paella"] / goodput["job-streams"], "Paella 2.1");
  figure.Set("host_submit_ns of gtx1660s");
  figure.panels.push_back(std::move(panel));
  return figure;
}

// MNIST is a thousand times smaller than the smallest of Paella's eight models. It is assumed to be
// two kernels of one block.
Result<Figure> PaellaFigure9(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const SimModel mobilenet, MakeSimModel("t4", "mobilenetv2"));
  const std::array models{Chain("mnist", 2, Nanoseconds(800), 256), mobilenet};
  Figure figure;
  FigurePanel panel{"64 closed-loop clients under paella",
                    "delay added to each decision, us",
                    "throughput / without delay",
                    {}};
  panel.log_x = true;
  std::vector<LoadPoint> mobilenet_loses;  // by delay: how many times its throughput is lower
  double mnist_keeps = 0;                  // of its throughput, with a delay of 1 us
  for (const SimModel& model : models) {
    const SimJobs jobs = SimJobs::Loops("t4", model, 64);
    const std::string name(model.statistics.model);
    double without = 0;
    for (const int delay_us : {0, 1, 2, 4, 8, 16, 32, 64, 128, 256}) {
      LAGOON_ASSIGN_OR_RETURN(GpuModel gpu, LoadGpuModel("t4"));
      gpu.constants.host_submit_ns += delay_us * 1000;
      LAGOON_ASSIGN_OR_RETURN(Scheduler paella, MakeScheduler("paella"));
      LAGOON_ASSIGN_OR_RETURN(SimStage stage,
                              SimStage::Open({.gpu = gpu}, std::move(paella), jobs.Queues()));
      const Nanoseconds span = milliseconds(options.Scaled(500));
      double done = 0;
      for (const VirtualRun& run : stage.Run(jobs.clients, jobs.Window(span), milliseconds(20))) {
        done += run.completed;
      }
      const double per_second = done / std::chrono::duration<double>(span).count();
      if (delay_us == 0) {
        without = per_second;
        figure.Find("jobs_per_second." + name, per_second);
        continue;
      }
      panel.Add(name, delay_us, per_second / without);
      if (name == "mnist" && delay_us == 1) mnist_keeps = per_second / without;
      if (name != "mnist") mobilenet_loses.push_back({1.0 * delay_us, without / per_second});
      if (delay_us == 16) figure.Find("throughput_with_16_us." + name, per_second / without);
    }
  }
  figure.CompareGain("delay_us_of_mobilenetv2_that_costs_what_1_us_costs_mnist", 30,
                     LoadAt(mobilenet_loses, 1 / mnist_keeps), "Paella 8 (about)");
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace lagoon::bench
