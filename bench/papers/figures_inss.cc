#include "bench/papers/figures_inss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "bench/measure/statistics.h"
#include "bench/placement/placement.h"
#include "cluster/knee.h"
#include "sim/placement/comparators.h"
#include "sim/surfaces/a100_models.h"

namespace lagoon::bench {
namespace {

// The paper does not give the load of its figures. At this one, the best placers still keep 99 % of
// the SLOs.
constexpr double kLoad = 1.1;

std::vector<std::string> PlacerNames() {
  std::vector<std::string> names;
  for (const PlacerInfo& info : AllPlacers()) names.push_back(info.name);
  return names;
}

InssOptions ClusterOf(const FigureOptions& options, std::size_t gpus, double load) {
  InssOptions cluster;
  cluster.gpus = gpus;
  cluster.load = load;
  cluster.seed = options.seed;
  // Long enough for every system: GSLICE first tunes at 10 s, and moves are at least 10 s apart.
  cluster.length = std::chrono::seconds(options.Scaled(180));
  cluster.warmup = cluster.length / 3;
  return cluster;
}

void AddInputs(const InssOptions& cluster, Figure& figure) {
  figure.Input("gpus", static_cast<double>(cluster.gpus));
  figure.Input("load", cluster.load);
  figure.Input("seconds", std::chrono::duration<double>(cluster.length).count());
  figure.Input("warmup_s", std::chrono::duration<double>(cluster.warmup).count());
}

using Runs = std::map<std::string, PlacementRun>;

Result<Runs> RunAll(const InssOptions& cluster, const PlacementOptions& of_run = {}) {
  LAGOON_ASSIGN_OR_RETURN(const LatencyModels models,
                          FitToSimulator(cluster, InterferenceKind::kRidge));
  Runs runs;
  for (const std::string& placer : PlacerNames()) {
    LAGOON_ASSIGN_OR_RETURN(runs[placer], RunPlacer(placer, cluster, models, of_run));
  }
  return runs;
}

void AddBars(FigurePanel& panel, const Runs& runs, double scale, double PlacementRun::*field) {
  panel.groups = {"all"};
  for (const std::string& placer : PlacerNames()) {
    panel.Add(placer, 0, scale * (runs.at(placer).*field));
  }
}

struct Margin {
  const char* placer;
  double paper;  // InSS's throughput over that of the placer, as a factor
};
constexpr Margin kMargins[] = {{"gpulet", 1.528}, {"gslice", 1.264}, {"igniter", 1.861}};

// Three readings of the paper's throughput: requests in time, beside our readings of the baselines
// and beside the paper's, and the paper's objective (Eq. 1), which counts what shares could serve.
void AddMargins(const Runs& fair, const Runs& paper, Figure& figure) {
  struct Reading {
    const char* name;
    const Runs& runs;
    double PlacementRun::*field;
  };
  const Reading readings[] = {{"goodput", fair, &PlacementRun::goodput},
                              {"goodput, the paper's baselines", paper, &PlacementRun::goodput},
                              {"capacity, the paper's baselines", paper, &PlacementRun::capacity}};
  for (const auto& [name, runs, field] : readings) {
    for (const Margin& margin : kMargins) {
      const double theirs = runs.at(margin.placer).*field;
      figure.CompareGain(fmt::format("{}, inss over {}", name, margin.placer), margin.paper,
                         runs.at("inss").*field / theirs, "InSS 6.3, Fig. 10");
      figure.Find(fmt::format("{}, lagoon over {}", name, margin.placer),
                  runs.at("lagoon").*field / theirs);
    }
  }
  for (const auto& [placer, run] : fair) {
    figure.Find(fmt::format("moves of {}", placer), run.moves);
  }
}

}  // namespace

Result<Figure> InssFigure1(const FigureOptions& /*options*/) {
  Figure figure;
  figure.Input("rows", 8);
  FigurePanel throughput{"Batches of 8", "share, %", "rows/s", {}};
  FigurePanel latency{"Batches of 8", "share, %", "ms", {}};
  latency.log_y = true;
  for (const A100Model& model : A100Models()) {
    const Surface& surface = A100Surface(model.name);
    for (int percent = 10; percent <= 100; percent += 10) {
      throughput.Add(model.network, percent, surface.Throughput(8, percent / 100.0));
      latency.Add(model.network, percent, surface.LatencyMs(8, percent / 100.0));
    }
    figure.Find(fmt::format("knee of {}, %", model.network), Knee(surface, 8, 100));
  }
  figure.Compare("knee of ResNet-50 at 8 rows, %", 60, Knee(A100Surface("R"), 8, 100), "InSS 2.1");
  figure.Set("the surface has the knee");
  figure.panels = {throughput, latency};
  return figure;
}

Result<Figure> InssFigure2(const FigureOptions& options) {
  // ResNet-50 beside AlexNet and VGG-16, which have 8 rows.
  Figure figure;
  FigurePanel panel{"ResNet-50 beside AlexNet and VGG-16", "rows", "slower by, %", {}};
  const ClusterSpec spec = InssCluster(ClusterOf(options, 4, 1));
  figure.Input("rows_of_neighbours", 8);
  double most = 0;
  for (const double share : {0.2, 0.4, 0.6}) {
    for (const std::int64_t rows : {4, 8, 16, 32}) {
      const double others = (1 - share) / 2;
      LAGOON_ASSIGN_OR_RETURN(
          const double slower,
          SlowdownInSimulator(spec.models, {{"R", rows, share}, {"A", 8, others}, {"V", 8, others}},
                              options.seed));
      panel.Add(fmt::format("{:.0f} %", 100 * share), static_cast<double>(rows), 100 * slower);
      most = std::max(most, 100 * slower);
    }
  }
  figure.Compare("largest slowdown, %", 22.7, most, "InSS 2.2");
  figure.panels = {panel};
  return figure;
}

Result<Figure> InssTable3(const FigureOptions& options) {
  Figure figure;
  FigurePanel panel{"Error of predictions", "", "%", {"median", "p90", "worst"}};
  const ClusterSpec spec = InssCluster(ClusterOf(options, 4, 1));
  const auto points = MeasureInSimulator(spec.models, spec.truth, options.seed);
  const auto drawn = DrawCoRuns(spec.models, spec.truth,
                                static_cast<std::size_t>(options.Scaled(400)), options.seed + 1);
  figure.Input("co_runs", static_cast<double>(drawn.size()));
  figure.Input("measured_of_each_model", 16 + 3);
  // kSaturating is judged in InssTable4().
  for (const InterferenceKind kind : {InterferenceKind::kNone, InterferenceKind::kPaper,
                                      InterferenceKind::kConstant, InterferenceKind::kRidge}) {
    LAGOON_ASSIGN_OR_RETURN(const LatencyModels models, FitLatencyModels(points, kind));
    LAGOON_ASSIGN_OR_RETURN(const auto errors, PredictAll(models, drawn));
    std::vector<double> percent;
    for (const PredictionError& error : errors) percent.push_back(100 * std::abs(error.relative));
    const double median = Median(percent), worst = *std::ranges::max_element(percent);
    const std::string name(Name(kind));
    panel.Add(name, 0, median);
    panel.Add(name, 1, Percentile(percent, 90));
    panel.Add(name, 2, worst);
    figure.Find(fmt::format("median error of {}, %", name), median);
    if (kind == InterferenceKind::kNone) continue;
    figure.CompareRange(fmt::format("worst error of {}, %", name), {0, 4.971}, worst,
                        "InSS Tables 3 and 4");
  }
  figure.panels = {panel};
  return figure;
}

Result<Figure> InssFigure10(const FigureOptions& options) {
  Figure figure;
  FigurePanel throughput{"Requests in time, 4 GPUs", "load", "requests/s", {}};
  FigurePanel violations{"Late or dropped, 4 GPUs", "load", "%", {}};
  for (const double load : {0.6, 0.8, 1.0, kLoad, 1.2, 1.4}) {
    LAGOON_ASSIGN_OR_RETURN(const Runs runs, RunAll(ClusterOf(options, 4, load)));
    for (const auto& [placer, run] : runs) {
      throughput.Add(placer, load, run.goodput);
      violations.Add(placer, load, 100 * run.violations);
    }
    for (const std::string placer :
         {"inss", "lagoon", "gslice", "gpulet", "inss-net", "inss-guess"}) {
      figure.Find(fmt::format("violations of {} at load {}, %", placer, load),
                  100 * runs.at(placer).violations);
    }
    if (load != kLoad) continue;
    LAGOON_ASSIGN_OR_RETURN(const Runs as_published,
                            RunAll(ClusterOf(options, 4, load), {.paper = true}));
    AddMargins(runs, as_published, figure);
    figure.CompareRange("violations of inss, %", {0, 0.7}, 100 * runs.at("inss").violations,
                        "InSS 6.3, Fig. 12");
    for (const auto& [placer, paper] :
         {std::pair{"gpulet", 1.9}, {"gslice", 1.7}, {"igniter", 1.1}}) {
      figure.Compare(fmt::format("violations of {} of the models it serves, %", placer), paper,
                     100 * runs.at(placer).violations_of_served, "InSS 6.3, Fig. 12");
    }
    figure.Compare("violations of inss-ni over inss, percentage points", 0.8,
                   100 * (runs.at("inss-ni").violations - runs.at("inss").violations),
                   "InSS 6.3, Fig. 12");
  }
  AddInputs(ClusterOf(options, 4, kLoad), figure);
  figure.panels = {throughput, violations};
  return figure;
}

Result<Figure> InssFigure11(const FigureOptions& options) {
  Figure figure;
  FigurePanel served{
      fmt::format("Answers each second, 4 GPUs, load {}", kLoad), "s", "requests/s", {}};
  FigurePanel fragments{"Unused part of GPUs that have a model", "", "% of a GPU", {}};
  LAGOON_ASSIGN_OR_RETURN(const Runs runs, RunAll(ClusterOf(options, 4, kLoad)));
  for (const auto& [placer, run] : runs) {
    for (std::size_t i = 0; i < run.served_each_second.size(); ++i) {
      served.Add(placer, static_cast<double>(i), run.served_each_second[i]);
    }
  }
  AddBars(fragments, runs, 100, &PlacementRun::fragments);
  AddInputs(ClusterOf(options, 4, kLoad), figure);
  figure.CompareRange("fragments of inss, % of a GPU", {0, 5}, 100 * runs.at("inss").fragments,
                      "InSS 6.3, Fig. 15: none");
  figure.panels = {served, fragments};
  return figure;
}

Result<Figure> InssFigure13(const FigureOptions& options) {
  Figure figure;
  FigurePanel resnet{fmt::format("ResNet-50, load {}", kLoad), "", "ms", {}};
  FigurePanel vgg{fmt::format("VGG-16, load {}", kLoad), "", "ms", {}};
  LAGOON_ASSIGN_OR_RETURN(const Runs runs, RunAll(ClusterOf(options, 4, kLoad)));
  AddInputs(ClusterOf(options, 4, kLoad), figure);
  AddBars(resnet, runs, 1, &PlacementRun::resnet50_ms);
  AddBars(vgg, runs, 1, &PlacementRun::vgg16_ms);
  for (const Margin& margin : kMargins) {
    // The paper draws the latencies and gives no numbers: InSS's is the least.
    figure.Find(fmt::format("latency of ResNet-50, {} over inss", margin.placer),
                runs.at(margin.placer).resnet50_ms / runs.at("inss").resnet50_ms);
  }
  figure.panels = {resnet, vgg};
  return figure;
}

Result<Figure> InssFigure16(const FigureOptions& options) {
  Figure figure;
  FigurePanel throughput{
      fmt::format("Requests in time, 64 GPUs, load {}", kLoad), "", "requests/s", {}};
  FigurePanel violations{"Late or dropped, 64 GPUs", "", "%", {}};
  FigurePanel fragments{"Unused part of GPUs that have a model", "", "% of 64 GPUs", {}};
  const InssOptions cluster = ClusterOf(options, 64, kLoad);
  AddInputs(cluster, figure);
  LAGOON_ASSIGN_OR_RETURN(const Runs runs, RunAll(cluster));
  AddBars(throughput, runs, 1, &PlacementRun::goodput);
  AddBars(violations, runs, 100, &PlacementRun::violations);
  AddBars(fragments, runs, 100, &PlacementRun::fragments);
  double most = 0;
  for (const Margin& margin : kMargins) {
    most = std::max(most, runs.at("inss").goodput / runs.at(margin.placer).goodput);
  }
  figure.CompareGain("goodput, inss over the worst of the paper's baselines", 1.66, most,
                     "InSS 6.3, Fig. 16: up to 66 %");
  figure.CompareRange("violations of inss, %", {0, 1}, 100 * runs.at("inss").violations,
                      "InSS 6.3, Fig. 17");
  figure.Find("violations of lagoon, %", 100 * runs.at("lagoon").violations);
  figure.Find("goodput of lagoon, requests/s", runs.at("lagoon").goodput);
  figure.panels = {throughput, violations, fragments};
  return figure;
}

Result<Figure> InssFigure19(const FigureOptions& options) {
  Figure figure;
  FigurePanel panel{"Mean time of a decision", "GPUs", "ms", {}};
  panel.log_y = true;
  for (const std::size_t gpus : {4U, 8U, 16U, 32U, 64U}) {
    InssOptions cluster = ClusterOf(options, gpus, kLoad);
    cluster.length = std::chrono::seconds(std::min(20, options.Scaled(20)));
    cluster.warmup = cluster.length / 3;
    if (gpus == 64) AddInputs(cluster, figure);
    LAGOON_ASSIGN_OR_RETURN(const Runs runs, RunAll(cluster, {.every_decision = true}));
    for (const auto& [placer, run] : runs) {
      panel.Add(placer, static_cast<double>(gpus), run.mean_decision_ms);
      if (gpus != 64) continue;
      const std::string metric = fmt::format("decision of {}, 64 GPUs, ms", placer);
      if (placer == "inss") {
        figure.CompareRange(metric, {0, 200}, run.mean_decision_ms, "InSS 6.3, Fig. 19");
      } else {
        figure.Find(metric, run.mean_decision_ms);
      }
    }
  }
  figure.panels = {panel};
  return figure;
}

}  // namespace lagoon::bench
