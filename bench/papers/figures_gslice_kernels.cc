#include "bench/papers/figures_gslice_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/measure/statistics.h"
#include "bench/shares/sim_rows.h"
#include "bench/shares/switch.h"
#include "bench/sim/sim_jobs.h"
#include "bench/sim/sim_stage.h"
#include "cluster/knee.h"
#include "sim/surfaces/v100_surfaces.h"

namespace lagoon::bench {
namespace {

using std::chrono::milliseconds;
using Seconds = std::chrono::duration<double>;

constexpr const char* kDevice = "sim:v100, kernels";
constexpr const char* kAssumedUse =
    "direction only: kernel lists with assumed use of units, and no host time between batches";

// Models in closed loops beside each other.
struct Together {
  std::vector<double> per_second, latency_ms;  // by model
  double busy = 0;                             // fraction of the units' time
  double all() const {
    double sum = 0;
    for (const double one : per_second) sum += one;
    return sum;
  }
};

struct Member {
  SimModel model;
  UnitRange units = {};
  std::size_t in_flight = 1;
};

Result<Together> RunTogether(const std::vector<Member>& members, const std::string& scheduler,
                             const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel("v100"));
  std::vector<SimStageQueue> queues;
  std::vector<DisbClient> clients;
  DisbWindow window{milliseconds(std::max(options.Scaled(2000), 200)), {}};
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    const std::string name = fmt::format("{}.{}", member.model.statistics.model, i);
    for (std::size_t request = 0; request < member.in_flight; ++request) {
      // A queue for each request in flight: streams are made for each queue.
      queues.push_back({name, JobClass::kBestEffort, &member.model, 1, member.units});
      clients.push_back({fmt::format("{}.{}", name, request), name, JobClass::kBestEffort, {}});
      window.arrivals.emplace_back();
    }
  }
  LAGOON_ASSIGN_OR_RETURN(Scheduler made, MakeScheduler(scheduler));
  LAGOON_ASSIGN_OR_RETURN(SimStage stage, SimStage::Open({.gpu = gpu}, std::move(made), queues));
  const std::vector<VirtualRun> runs = stage.Run(clients, window, milliseconds(100));
  Together together;
  together.busy = stage.UnitsBusy();
  std::size_t client = 0;
  for (const Member& member : members) {
    double done = 0;
    std::vector<double> latencies;
    for (std::size_t i = 0; i < member.in_flight; ++i, ++client) {
      done += runs[client].completed;
      latencies.insert(latencies.end(), runs[client].latencies_ms.begin(),
                       runs[client].latencies_ms.end());
    }
    together.per_second.push_back(done / Seconds(window.span).count());
    together.latency_ms.push_back(Mean(latencies));
  }
  return together;
}

UnitRange Percent(std::uint32_t first, std::uint32_t count) {
  return {first * 80 / 100, count * 80 / 100};
}

}  // namespace

Result<Figure> GsliceFigure1(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const SimModel resnet, MakeSimModel("v100", "resnet50"));
  LAGOON_ASSIGN_OR_RETURN(const SimModel vgg, MakeSimModel("v100", "vgg19"));
  struct Way {
    const char *name, *scheduler;
    std::array<UnitRange, 3> units;
  };
  const std::array ways{
      Way{"no MPS", "time-slice", {}}, Way{"default MPS", "streams", {}},
      Way{"25/25/50 %", "shares", {Percent(0, 25), Percent(25, 25), Percent(50, 50)}}};
  Figure figure;
  FigurePanel throughput{"Two ResNet-50 and a VGG-19 together", "", "images/s", {}};
  FigurePanel latency{"Their mean latency", "", "ms", {}};
  std::vector<Together> results;
  LAGOON_ASSIGN_OR_RETURN(const Together vgg_alone, RunTogether({{vgg}}, "streams", options));
  LAGOON_ASSIGN_OR_RETURN(const Together resnet_alone, RunTogether({{resnet}}, "streams", options));
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const Way& way = ways[i];
    LAGOON_ASSIGN_OR_RETURN(
        const Together seen,
        RunTogether({{resnet, way.units[0]}, {resnet, way.units[1]}, {vgg, way.units[2]}},
                    way.scheduler, options));
    throughput.groups.push_back(way.name);
    latency.groups.push_back(way.name);
    const std::array names{"ResNet-50, first", "ResNet-50, second", "VGG-19"};
    for (std::size_t model = 0; model < names.size(); ++model) {
      throughput.Add(names[model], static_cast<double>(i), seen.per_second[model]);
      latency.Add(names[model], static_cast<double>(i), seen.latency_ms[model]);
    }
    figure.Find(fmt::format("throughput_ips.{}", way.scheduler), seen.all());
    figure.Find(fmt::format("units_busy.{}", way.scheduler), seen.busy);
    results.push_back(seen);
  }
  figure.Input("units_of_resnet50", ways[2].units[0].count);
  figure.Input("units_of_vgg19", ways[2].units[2].count);
  figure.Compare("latency_ms.vgg19.alone", 20, vgg_alone.latency_ms[0], "GSLICE 2.1.2");
  figure.Set("the list's time is the published one");
  figure.Compare("latency_ms.vgg19.time-slice", 60, results[0].latency_ms[2], "GSLICE 2.1.2");
  figure.Judge(kDevice,
               "direction only: its ResNet-50 takes 15 ms under CNTK, ours 5.65 (Table 5)");
  figure.Find("latency_ms.resnet50.alone", resnet_alone.latency_ms[0]);
  figure.Find("latency_ms.resnet50.time-slice", results[0].latency_ms[0]);
  figure.CompareGain("throughput.shares_over_time-slice", 1.5, results[2].all() / results[0].all(),
                     "GSLICE 2.1.2");
  figure.Judge(kDevice, kAssumedUse);
  figure.panels = {std::move(throughput), std::move(latency)};
  return figure;
}

Result<Figure> GsliceFigure2(const FigureOptions& /*options*/) {
  constexpr std::array kPercents{10, 20, 30, 40, 50, 60, 70, 80, 90, 100};
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel("v100"));
  Figure figure;
  figure.Input("units", gpu.constants.units);
  FigurePanel models{"Figure 2: one row", "share, %", "throughput / on the whole device", {}};
  FigurePanel rows{"Figure 3: AlexNet", "share, %", "images/s", {}};
  rows.log_y = true;
  const auto knee_of = [&](const std::string& name, std::int64_t count,
                           FigurePanel& panel) -> Result<double> {
    LAGOON_ASSIGN_OR_RETURN(const SimModel model, MakeSimRows(gpu, name, count));
    std::vector<double> shares, per_second;
    for (const int percent : kPercents) {
      const auto units = static_cast<std::uint32_t>(gpu.constants.units * percent / 100);
      LAGOON_ASSIGN_OR_RETURN(const double ms, SimShareMs(gpu, model, units));
      shares.push_back(percent / 100.0);
      per_second.push_back(1000 * static_cast<double>(count) / ms);
    }
    const bool absolute = panel.log_y;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      panel.Add(absolute ? fmt::format("{} rows", count) : name, kPercents[i],
                absolute ? per_second[i] : per_second[i] / per_second.back());
    }
    return KneeOf(shares, per_second);
  };
  for (const PublishedKnee& known : V100Knees()) {
    LAGOON_ASSIGN_OR_RETURN(const double knee, knee_of(known.model, 1, models));
    figure.Compare(fmt::format("knee_percent.{}", known.model), known.share * 100, knee * 100,
                   "GSLICE Fig. 2, 3");
    figure.Judge(kDevice, "direction only: the use of units is assumed, not measured on a V100");
    figure.Find(fmt::format("knee_percent.{}.batch_level", known.model),
                static_cast<double>(Knee(V100Surface(known.model), 1, 10)) * 10);
  }
  for (const std::int64_t count : {1, 2, 4, 8, 16, 32}) {
    LAGOON_ASSIGN_OR_RETURN(const double knee, knee_of("alexnet", count, rows));
    figure.Find(fmt::format("knee_percent.alexnet.b{}", count), knee * 100);
  }
  figure.panels = {std::move(models), std::move(rows)};
  return figure;
}

Result<Figure> GsliceFigure5(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel("v100"));
  Figure figure;
  figure.Input("units", gpu.constants.units);
  FigurePanel throughput{"Streams of one model", "streams", "throughput / with one stream", {}};
  FigurePanel latency{"Their mean latency", "streams", "latency / with one stream", {}};
  struct Case {
    const char* model;
    std::int64_t rows;
  };
  for (const Case& one : {Case{"resnet50", 1}, Case{"resnet50", 8}, Case{"alexnet", 1}}) {
    LAGOON_ASSIGN_OR_RETURN(const SimModel model, MakeSimRows(gpu, one.model, one.rows));
    const std::string name = fmt::format("{}.b{}", one.model, one.rows);
    std::vector<double> per_second, ms;
    for (std::size_t streams = 1; streams <= 4; ++streams) {
      LAGOON_ASSIGN_OR_RETURN(const Together seen,
                              RunTogether({{model, {}, streams}}, "streams", options));
      per_second.push_back(seen.all());
      ms.push_back(seen.latency_ms[0]);
      throughput.Add(name, static_cast<double>(streams), per_second.back() / per_second[0]);
      latency.Add(name, static_cast<double>(streams), ms.back() / ms[0]);
    }
    figure.Find("throughput.streams_2_over_1." + name, per_second[1] / per_second[0]);
    figure.Find("latency.streams_4_over_2." + name, ms[3] / ms[1]);
    if (std::string_view(one.model) == "alexnet") {  // the paper's exception
      figure.Find("throughput.streams_4_over_2." + name, per_second[3] / per_second[1]);
      continue;
    }
    figure.CompareGain("throughput.streams_4_over_2." + name, 1, per_second[3] / per_second[1],
                       "GSLICE 3.3.1: barely any improvement");
    figure.Judge(kDevice, kAssumedUse);
  }
  figure.panels = {std::move(throughput), std::move(latency)};
  return figure;
}

Result<Figure> GsliceFigure7(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const SimModel resnext, MakeSimModel("v100", "resnext50"));
  LAGOON_ASSIGN_OR_RETURN(const SimModel alexnet, MakeSimModel("v100", "alexnet"));
  struct Way {
    const char *name, *scheduler;
    UnitRange first, second;
  };
  const std::array ways{Way{"time slices", "time-slice", {}, {}},
                        Way{"one stream each", "streams", {}, {}},
                        Way{"70/30 %", "shares", Percent(0, 70), Percent(70, 30)}};
  Figure figure;
  figure.Input("units_of_resnext50", ways[2].first.count);
  figure.Input("units_of_alexnet", ways[2].second.count);
  FigurePanel latency{"ResNeXt-50 and AlexNet together", "", "mean latency / alone", {}};
  LAGOON_ASSIGN_OR_RETURN(const Together one, RunTogether({{resnext}}, "streams", options));
  LAGOON_ASSIGN_OR_RETURN(const Together two, RunTogether({{alexnet}}, "streams", options));
  for (std::size_t i = 0; i < ways.size(); ++i) {
    const Way& way = ways[i];
    LAGOON_ASSIGN_OR_RETURN(
        const Together seen,
        RunTogether({{resnext, way.first}, {alexnet, way.second}}, way.scheduler, options));
    latency.groups.push_back(way.name);
    const auto at = static_cast<double>(i);
    latency.Add("ResNeXt-50", at, seen.latency_ms[0] / one.latency_ms[0]);
    latency.Add("AlexNet", at, seen.latency_ms[1] / two.latency_ms[0]);
    figure.Find(fmt::format("slowdown.resnext50.{}", way.scheduler),
                seen.latency_ms[0] / one.latency_ms[0]);
    figure.Find(fmt::format("slowdown.alexnet.{}", way.scheduler),
                seen.latency_ms[1] / two.latency_ms[0]);
    // 1: the models take turns. 2: both run as if alone.
    figure.Find(fmt::format("overlap.{}", way.scheduler),
                seen.per_second[0] / one.per_second[0] + seen.per_second[1] / two.per_second[0]);
  }
  figure.panels = {std::move(latency)};
  return figure;
}

Result<Figure> GsliceSwitch(const FigureOptions& options) {
  SwitchOptions of;
  of.moves = std::max(options.Scaled(1000), 50);
  of.seed = options.seed;
  Figure figure;
  figure.Input("units", 80);
  figure.Input("moves", of.moves);
  FigurePanel panel{"Moves of a share under full load", "percentile", "idle, us", {}};
  for (const SwitchKind& kind : SwitchKinds(80)) {
    LAGOON_ASSIGN_OR_RETURN(const SwitchRun run, RunSimSwitch(of, kind));
    for (const double percent : {10, 25, 50, 75, 90, 95, 99}) {
      panel.Add(kind.name, percent, Percentile(run.times.idle_us, percent));
    }
    figure.Find("service_gap_us_p99." + kind.name, Percentile(run.times.gap_us, 99));
    figure.Find("jobs_lost." + kind.name, static_cast<double>(run.lost));
    const double idle = Percentile(run.times.idle_us, 99);
    if (kind.name == "resize") {
      figure.CompareRange("share_switch_idle_us_p99." + kind.name, {50, 60}, idle,
                          "GSLICE 3.2.4, 4.6");
      figure.Judge(kDevice, "direction only: a share moves here, the paper switches processes");
    } else {
      figure.Find("share_switch_idle_us_p99." + kind.name, idle);
    }
  }
  figure.panels = {std::move(panel)};
  return figure;
}

}  // namespace lagoon::bench
