// Figures 17 to 22: how fast best-effort work leaves, and what it loses.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "bench/measure/statistics.h"
#include "bench/papers/figures_reef.h"
#include "bench/sim/preemption.h"
#include "bench/sim/sim_jobs.h"

namespace lagoon::bench {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

const std::array<std::string, 2> kDevices{"mi50", "gv100"};
constexpr std::array<std::string_view, 5> kModels{"resnet152", "vgg19", "yolov3", "bert", "gpt2"};

constexpr double kMostUs = 40;  // REEF 6.4: one client's preemption takes less
constexpr const char* kCalibrated = "constants were calibrated on it";

std::array<PreemptionWay, 3> Ways() { return {WaitWay(), KillWay(), CheckWay()}; }

double Largest(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

// Mean preemption latency in a workload of DISB, over requests that arrive while no other real-time
// request is under way.
Result<double> DisbPreemption(const std::string& device, const std::string& workload,
                              const PreemptionWay& way, Nanoseconds span) {
  LAGOON_ASSIGN_OR_RETURN(const SimJobs jobs, SimJobs::Disb(device, workload));
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel(device));
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, way.Make());
  LAGOON_ASSIGN_OR_RETURN(SimStage stage, SimStage::Open({.gpu = gpu, .abort = way.abort},
                                                         std::move(scheduler), jobs.Queues()));
  std::vector<double> starts;
  for (const VirtualRun& run : stage.Run(jobs.clients, jobs.Window(span), milliseconds(20))) {
    starts.insert(starts.end(), run.starts_us.begin(), run.starts_us.end());
  }
  return Mean(starts);
}

/// A case on `device` with `requests` real-time requests, scaled by the effort. The caller sets
/// `best_effort`.
Result<PreemptionCase> CaseOn(const std::string& device, const FigureOptions& options,
                              int requests) {
  PreemptionCase preempted;
  LAGOON_ASSIGN_OR_RETURN(preempted.gpu, LoadGpuModel(device));
  preempted.requests = options.Scaled(requests);
  preempted.seed = options.seed;
  return preempted;
}

double Least(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

/// The number that the paper names for some case, else the range that it gives for all.
std::pair<double, double> Published(const std::map<std::string, double>& named,
                                    const std::string& of, std::pair<double, double> all) {
  const auto number = named.find(of);
  return number == named.end() ? all : std::pair(number->second, number->second);
}

FigurePanel Bars(const std::string& title) {
  FigurePanel panel{title, "", "preemption latency, us, mean", {}};
  panel.log_y = true;
  return panel;
}

}  // namespace

// Runs at least 300 ms, as the slowest client of D sends every 132 ms.
Result<Figure> ReefFigure17(const FigureOptions& options) {
  // "For all DISB workloads, from ... to ..."; of four it says which they are.
  const std::map<std::string, double> named{
      {"mi50.B", 19.3}, {"mi50.C", 21.8}, {"gv100.A", 6.1}, {"gv100.C", 15.0}};
  const std::map<std::string, std::pair<double, double>> of_all{{"mi50", {19.3, 21.8}},
                                                                {"gv100", {6.1, 15.0}}};
  const Nanoseconds span = milliseconds(std::max(300, options.Scaled(1500)));
  Figure figure;
  for (const std::string& device : kDevices) {
    FigurePanel panel = Bars("DISB on " + device);
    for (const std::string workload : {"A", "B", "C", "D", "E"}) {
      const auto at = static_cast<double>(panel.groups.size());
      panel.groups.push_back(workload);
      std::map<std::string, double> means;
      for (const PreemptionWay& way : Ways()) {
        LAGOON_ASSIGN_OR_RETURN(means[way.label], DisbPreemption(device, workload, way, span));
        panel.Add(way.label, at, means[way.label]);
      }
      const std::string of = fmt::format("{}.{}", device, workload);
      figure.Find("preemption_us.wait." + of, means[WaitWay().label]);
      const std::string kills = fmt::format("preemption_us.{}.{}", KillWay().label, of);
      if (workload == "A" || workload == "B") {  // one best-effort client, as in Figure 18
        figure.CompareRange(kills, {0, kMostUs}, means[KillWay().label], "REEF Figures 18 and 19");
        figure.Set(kCalibrated);
      } else {
        figure.Find(kills, means[KillWay().label]);
      }
      const double ratio = means[WaitWay().label] / means[KillWay().label];
      figure.CompareGainRange("wait_over_reset." + of, Published(named, of, of_all.at(device)),
                              ratio, "REEF 6.4");
    }
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

Result<Figure> ReefFigure18(const FigureOptions& options) {
  const std::map<std::string, double> named{
      {"mi50.vgg19", 310}, {"mi50.resnet152", 882}, {"gv100.resnet152", 233}, {"gv100.gpt2", 365}};
  const std::map<std::string, std::pair<double, double>> of_all{{"mi50", {310, 882}},
                                                                {"gv100", {233, 365}}};
  Figure figure;
  for (const std::string& device : kDevices) {
    FigurePanel panel = Bars("One best-effort model on " + device);
    std::map<std::string, std::vector<double>> means;  // by way
    LAGOON_ASSIGN_OR_RETURN(PreemptionCase preempted, CaseOn(device, options, 150));
    for (const std::string_view name : kModels) {
      LAGOON_ASSIGN_OR_RETURN(const SimModel model, MakeSimModel(device, name));
      preempted.best_effort = {&model};
      const auto at = static_cast<double>(panel.groups.size());
      panel.groups.emplace_back(name);
      for (const PreemptionWay& way : Ways()) {
        LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, PreemptionUs(preempted, way));
        means[way.label].push_back(Mean(us));
        panel.Add(way.label, at, Mean(us));
      }
      const std::string of = fmt::format("{}.{}", device, name);
      figure.CompareRange("preemption_us.wait." + of, Published(named, of, of_all.at(device)),
                          means[WaitWay().label].back(), "REEF 6.4");
    }
    for (const PreemptionWay& way : {KillWay(), CheckWay()}) {
      const std::vector<double>& us = means[way.label];
      figure.CompareRange(fmt::format("preemption_us_of_any_model.{}.{}", way.label, device),
                          {30, 38}, Largest(us), "REEF 6.4");
      if (way.label == KillWay().label) figure.Set(kCalibrated);
    }
    figure.panels.push_back(std::move(panel));
  }
  return figure;
}

Result<Figure> ReefFigure19(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(PreemptionCase preempted, CaseOn("mi50", options, 150));
  Figure figure;
  FigurePanel by_kernels{
      "Kernels of 100 us", "launched kernels", "preemption latency, us, mean", {}};
  FigurePanel by_time{"100 kernels", "time of a kernel, us", by_kernels.y, {}};
  std::map<std::string, std::vector<double>> means;
  const auto measure = [&](FigurePanel& panel, std::size_t kernels, int us, double at) -> Status {
    const SimModel model = FullKernels(preempted.gpu, kernels, microseconds(us));
    preempted.best_effort = {&model};
    for (const PreemptionWay& way : Ways()) {
      LAGOON_ASSIGN_OR_RETURN(const std::vector<double> seen, PreemptionUs(preempted, way));
      means[way.label].push_back(Mean(seen));
      panel.Add(way.label, at, Mean(seen));
    }
    return {};
  };
  for (const int kernels : {20, 50, 100, 150, 200}) {
    LAGOON_RETURN_IF_ERROR(measure(by_kernels, static_cast<std::size_t>(kernels), 100, kernels));
  }
  for (const int us : {20, 50, 100, 200, 400}) {
    LAGOON_RETURN_IF_ERROR(measure(by_time, 100, us, us));
  }
  for (const PreemptionWay& way : {KillWay(), CheckWay()}) {
    const std::vector<double>& us = means[way.label];
    figure.CompareRange(fmt::format("preemption_us_at_most.{}", way.label), {0, kMostUs},
                        Largest(us), "REEF 6.4");
    figure.Set("the level; that it is flat is predicted");
    figure.Find(fmt::format("preemption_us_at_least.{}", way.label), Least(us));
  }
  const std::vector<double>& wait = means[WaitWay().label];
  figure.Find("preemption_us.wait.20_kernels", wait[0]);
  figure.Find("preemption_us.wait.200_kernels", wait[4]);
  figure.panels = {std::move(by_kernels), std::move(by_time)};
  return figure;
}

Result<Figure> ReefFigure20(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(PreemptionCase preempted, CaseOn("mi50", options, 100));
  LAGOON_ASSIGN_OR_RETURN(const SimModel resnet, MakeSimModel("mi50", "resnet152"));
  const PreemptionWay all{"reset, all queued", "reset", 0, SimAbort::kKill};
  Figure figure;
  FigurePanel panel{
      "ResNet-152 of each client", "best-effort clients", "preemption latency, us, mean", {}};
  panel.log_y = true;
  std::vector<double> gains, against_wait;
  for (int clients = 1; clients <= 6; ++clients) {
    preempted.best_effort.push_back(&resnet);
    std::map<std::string, double> means;
    for (const PreemptionWay& way : {WaitWay(), all, KillWay()}) {
      LAGOON_ASSIGN_OR_RETURN(const std::vector<double> us, PreemptionUs(preempted, way));
      means[way.label] = Mean(us);
      panel.Add(way.label, clients, Mean(us));
      figure.Find(fmt::format("preemption_us.{}.{}_clients", way.label, clients), Mean(us));
    }
    gains.push_back(1 - means[KillWay().label] / means[all.label]);
    against_wait.push_back(means[WaitWay().label] / means[all.label]);
    if (clients > 1) continue;
    figure.Compare("preemption_us.depth_4", 37, means[KillWay().label], "REEF Fig. 20b");
    figure.Set(kCalibrated);
    figure.Compare("preemption_us.all_queued", 430, means[all.label], "REEF Fig. 20b");
    figure.Set("runtime_queue was calibrated on it");
  }
  figure.Compare("reduction_by_depth_4_max", 0.92, Largest(gains), "REEF 6.4");
  figure.Compare("reduction_by_depth_4_least", 0.87, Least(gains), "REEF 6.4");
  figure.CompareGain("wait_over_reset_with_all_queued_max", 3.0, Largest(against_wait), "REEF 6.4");
  figure.CompareGain("wait_over_reset_with_all_queued_least", 1.7, Least(against_wait), "REEF 6.4");
  figure.panels.push_back(std::move(panel));
  return figure;
}

Result<Figure> ReefFigure21(const FigureOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(PreemptionCase preempted, CaseOn("mi50", options, 100));
  LAGOON_ASSIGN_OR_RETURN(const SimModel resnet, MakeSimModel("mi50", "resnet152"));
  preempted.best_effort = {&resnet};
  Figure figure;
  FigurePanel preemption{"Preemption of ResNet-152",
                         "depth of the device's queue",
                         "preemption latency, us, mean",
                         {}};
  FigurePanel time{"ResNet-152 alone", preemption.x, "execution time, ms", {}};
  preemption.log_x = time.log_x = preemption.log_y = true;
  std::map<std::uint32_t, double> us, ms, host_use;
  for (const std::uint32_t depth : {1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 256u}) {
    const PreemptionWay way{"reset, kills", "reset", depth, SimAbort::kKill};
    LAGOON_ASSIGN_OR_RETURN(const std::vector<double> starts, PreemptionUs(preempted, way));
    PreemptionCase once = preempted;
    once.requests = 0;
    LAGOON_ASSIGN_OR_RETURN(const RestoreCost cost, MeasureRestore(once, way));
    us[depth] = Mean(starts);
    ms[depth] = cost.alone_us / 1000;
    host_use[depth] = cost.host_use;
    preemption.Add(way.label, depth, us[depth]);
    time.Add("reset", depth, ms[depth]);
  }
  figure.Compare("execution_ms_saved.depth_1_to_4", 2.0, ms[1] - ms[4], "REEF 6.4");
  figure.Set(kCalibrated);
  figure.CompareRange("execution_time.depth_256_over_4", {0.997, 1.0}, ms[256] / ms[4], "REEF 6.4");
  figure.Compare("preemption_us.depth_4", 30, us[4], "REEF 6.4 (about)");
  figure.Set("by the calibration on Figure 20");
  figure.Find("preemption_us.depth_32", us[32]);
  figure.Compare("host_use.depth_256", 0.17, host_use[256], "REEF 6.4 (of a core)");
  figure.Compare("host_use.depth_4", 0.31, host_use[4], "REEF 6.4 (of a core)");
  figure.panels = {std::move(preemption), std::move(time)};
  return figure;
}

namespace {

// TensorRT and PyTorch: after a preemption, a kernel starts again together with its group.
Status CompareGroups(const FigureOptions& options, Figure& figure) {
  FigurePanel panel{"One preemption on gv100, engines", "", "lost time, us, mean", {}};
  LAGOON_ASSIGN_OR_RETURN(PreemptionCase preempted, CaseOn("gv100", options, 150));
  for (const std::string_view name : kModels) panel.groups.emplace_back(name);
  for (const std::string engine : {"trt", "torch"}) {
    std::vector<double> shares;
    for (std::size_t i = 0; i < kModels.size(); ++i) {
      LAGOON_ASSIGN_OR_RETURN(const SimModel model,
                              MakeSimModel("gv100", fmt::format("{}-{}", engine, kModels[i])));
      preempted.best_effort = {&model};
      LAGOON_ASSIGN_OR_RETURN(const RestoreCost cost, MeasureRestore(preempted, KillWay()));
      shares.push_back(Mean(cost.us) / cost.alone_us);
      panel.Add(engine, static_cast<double>(i), Mean(cost.us));
    }
    figure.CompareRange("restore_overhead_most." + engine + ".gv100", {0, 0.05}, Largest(shares),
                        "REEF 6.4");
  }
  figure.panels.push_back(std::move(panel));
  return {};
}

}  // namespace

Result<Figure> ReefFigure22(const FigureOptions& options) {
  Figure figure;
  for (const std::string& device : kDevices) {
    FigurePanel panel{"One preemption on " + device, "", "lost time, us, mean", {}};
    LAGOON_ASSIGN_OR_RETURN(PreemptionCase preempted, CaseOn(device, options, 150));
    for (const PreemptionWay& way : {KillWay(), CheckWay()}) {
      std::vector<double> lost, shares;
      panel.groups.clear();
      for (const std::string_view name : kModels) {
        LAGOON_ASSIGN_OR_RETURN(const SimModel model, MakeSimModel(device, name));
        preempted.best_effort = {&model};
        LAGOON_ASSIGN_OR_RETURN(const RestoreCost cost, MeasureRestore(preempted, way));
        lost.push_back(Mean(cost.us));
        shares.push_back(lost.back() / cost.alone_us);
        panel.Add(way.label, static_cast<double>(panel.groups.size()), lost.back());
        panel.groups.emplace_back(name);
      }
      const std::string where = fmt::format("{}.{}", way.label, device);
      figure.Compare("restore_us_least." + where, 22, Least(lost), "REEF 6.4");
      figure.Compare("restore_us_most." + where, 170, Largest(lost), "REEF 6.4");
      figure.CompareRange("restore_overhead_most." + where, {0, 0.05}, Largest(shares), "REEF 6.4");
    }
    figure.panels.push_back(std::move(panel));
  }
  LAGOON_RETURN_IF_ERROR(CompareGroups(options, figure));
  return figure;
}

}  // namespace lagoon::bench
