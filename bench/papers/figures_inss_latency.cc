// The latency model and its interference: InSS Fig. 2 and Tables 3 and 4.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "bench/measure/statistics.h"
#include "bench/papers/figures_inss.h"
#include "bench/placement/placement.h"
#include "sim/cluster/inss_rows.h"
#include "sim/interference/fit.h"

namespace lagoon::bench {
namespace {

constexpr std::size_t kCoRuns = 400;

// A row of Tables 3 and 4 as the simulator measures it.
struct MeasuredRow {
  InssRow row;
  MeasuredPoint together;
  double alone_ms = 0;
};

Result<std::vector<MeasuredRow>> MeasureRows(const ClusterSpec& spec, unsigned seed) {
  std::vector<MeasuredRow> measured;
  for (InssRow& row : InssRows()) {
    MeasuredRow& one = measured.emplace_back();
    seed += 2;
    LAGOON_ASSIGN_OR_RETURN(const MeasuredPoint alone,
                            MeasureRuns(spec.models, spec.truth, {row.runs.front()}, seed));
    LAGOON_ASSIGN_OR_RETURN(one.together, MeasureRuns(spec.models, spec.truth, row.runs, seed + 1));
    one.alone_ms = alone.latency_ms;
    one.row = std::move(row);
  }
  return measured;
}

// Relative errors of the 28 rows: of the time alone, of the factor by which neighbours slow down,
// and of their product, which is what the paper prints.
struct RowErrors {
  std::vector<double> alone, slowdown, together;
};

Result<RowErrors> ErrorsOf(const LatencyModels& models, const std::vector<MeasuredRow>& rows) {
  RowErrors errors;
  for (const MeasuredRow& row : rows) {
    const MeasuredPoint& point = row.together;
    LAGOON_ASSIGN_OR_RETURN(const double together, Predict(models, point));
    const double alone = models.find(point.model)->second.AloneMs(point.rows, point.share);
    errors.alone.push_back(std::abs(alone / row.alone_ms - 1));
    errors.slowdown.push_back(std::abs((together / alone) / (point.latency_ms / row.alone_ms) - 1));
    errors.together.push_back(std::abs(together / point.latency_ms - 1));
  }
  return errors;
}

double Worst(const std::vector<double>& errors) { return *std::ranges::max_element(errors); }

// A model and its neighbours, without their rows and shares.
using Group = std::pair<std::string, std::multiset<std::string>>;
Group GroupOf(const MeasuredPoint& point) {
  Group group = {point.model, {}};
  for (const MeasuredNeighbour& neighbour : point.neighbours) group.second.insert(neighbour.model);
  return group;
}

// Those of `drawn` that have a model beside neighbours which `measured` does not have together.
std::vector<MeasuredPoint> NotIn(const std::vector<MeasuredPoint>& measured,
                                 const std::vector<MeasuredPoint>& drawn) {
  std::set<Group> seen;
  for (const MeasuredPoint& point : measured) seen.insert(GroupOf(point));
  std::vector<MeasuredPoint> rest;
  for (const MeasuredPoint& point : drawn) {
    if (!seen.contains(GroupOf(point))) rest.push_back(point);
  }
  return rest;
}

// A way to measure and to fit.
struct Way {
  const char* name;
  MeasuringPlan plan;
  InterferenceKind kind;
  AloneKind alone;
};

std::vector<Way> Ways() {
  using enum InterferenceKind;
  using enum AloneKind;
  const MeasuringPlan narrow = MeasuringPlan::Narrow(), wide = MeasuringPlan::Wide();
  return {{"narrow ridge", narrow, kRidge, kRegression},
          {"wide ridge", wide, kRidge, kRegression},
          {"narrow saturating", narrow, kSaturating, kRegression},
          {"wide saturating", wide, kSaturating, kRegression},
          {"narrow saturating kinked", narrow, kSaturating, kKinked},
          {"wide saturating kinked", wide, kSaturating, kKinked}};
}

// What the simulator says, and what the paper prints.
struct Judged {
  ClusterSpec spec;
  std::vector<MeasuredRow> rows;
  std::vector<MeasuredPoint> drawn;
};

Result<Judged> Measure(const TruthSpec& truth, unsigned seed) {
  InssOptions cluster;
  cluster.truth = truth;
  Judged judged = {InssCluster(cluster), {}, {}};
  LAGOON_ASSIGN_OR_RETURN(judged.rows, MeasureRows(judged.spec, seed));
  judged.drawn = DrawCoRuns(judged.spec.models, truth, kCoRuns, seed + 1);
  return judged;
}

// `truth`: a suffix of the metrics. `last`: the way that the figure is about.
Status AddWay(const Way& way, const Judged& judged, unsigned seed, const std::string& truth,
              bool last, Figure& figure) {
  const ClusterSpec& spec = judged.spec;
  const auto points = MeasureInSimulator(spec.models, spec.truth, seed, way.plan);
  LAGOON_ASSIGN_OR_RETURN(const LatencyModels models,
                          FitLatencyModels(points, way.kind, way.alone));
  LAGOON_ASSIGN_OR_RETURN(const RowErrors errors, ErrorsOf(models, judged.rows));
  const std::vector<MeasuredPoint> unseen = NotIn(points, judged.drawn);
  LAGOON_ASSIGN_OR_RETURN(const auto predicted, PredictAll(models, unseen));
  std::vector<double> held_out;
  for (const PredictionError& error : predicted) held_out.push_back(std::abs(error.relative));
  FigurePanel& worst = figure.panels[0];
  worst.Add(way.name + truth, 0, 100 * Worst(errors.alone));
  worst.Add(way.name + truth, 1, 100 * Worst(errors.slowdown));
  worst.Add(way.name + truth, 2, 100 * Worst(errors.together));
  worst.Add(way.name + truth, 3, 100 * Median(held_out));
  const std::string of = truth + (last ? "" : fmt::format(", {}", way.name));
  figure.Find("latency_error_worst_alone.paper_rows" + of, Worst(errors.alone));
  figure.Find("latency_error_worst_slowdown.paper_rows" + of, Worst(errors.slowdown));
  figure.Find("latency_error_median.held_out" + of, Median(held_out));
  figure.Find("latency_error_p90.held_out" + of, Percentile(held_out, 90));
  if (!last) {
    figure.Find("latency_error_worst.paper_rows" + of, Worst(errors.together));
    return {};
  }
  figure.CompareRange("latency_error_worst.paper_rows" + of, {0, 0.04971}, Worst(errors.together),
                      "InSS Tables 3 and 4");
  for (std::size_t i = 0; i < errors.together.size(); ++i) {
    figure.panels[1].Add("lagoon" + truth, static_cast<double>(i + 1), 100 * errors.together[i]);
  }
  return {};
}

// R on 40 % of the GPU with 4 to 32 rows beside others with 8 rows; the most that it is slower by,
// in percent.
Result<double> AddFigure2(const TruthSpec& truth, const std::string& suffix, unsigned seed,
                          FigurePanel& panel) {
  struct Beside {
    const char* name;
    std::vector<SimulatedRun> others;
  };
  // As the paper writes them: ' has 30 % of the GPU, * has 60 %.
  const Beside all[] = {{"A'", {{"A", 8, 0.3}}},
                        {"A*", {{"A", 8, 0.6}}},
                        {"V'", {{"V", 8, 0.3}}},
                        {"V*", {{"V", 8, 0.6}}},
                        {"A'V'", {{"A", 8, 0.3}, {"V", 8, 0.3}}}};
  const ClusterSpec spec = InssCluster({});
  double most = 0;
  for (const auto& [name, others] : all) {
    for (const std::int64_t rows : {4, 8, 16, 32}) {
      std::vector<SimulatedRun> runs = {{"R", rows, 0.4}};
      runs.insert(runs.end(), others.begin(), others.end());
      LAGOON_ASSIGN_OR_RETURN(const double slower,
                              SlowdownInSimulator(spec.models, runs, seed, truth));
      panel.Add(name + suffix, static_cast<double>(rows), 100 * slower);
      most = std::max(most, 100 * slower);
    }
  }
  return most;
}

}  // namespace

Result<Figure> InssTable4(const FigureOptions& options) {
  Figure figure;
  figure.panels = {
      {"Errors of each way to measure and fit",
       "",
       "%",
       {"alone, worst row", "slowdown, worst row", "both, worst row", "both, held out, median"}},
      {"Errors of the 28 rows", "row of Tables 3 and 4", "%", {}}};
  figure.Input("measured_of_each_model", 16 + 3);
  figure.Input("co_runs", kCoRuns);
  for (const InssRow& row : InssRows()) {
    const auto number = static_cast<double>(
        figure.panels[1].series.empty() ? 1 : figure.panels[1].series[0].x.size() + 1);
    figure.panels[1].Add("InSS", number, 100 * row.paper_error());
  }
  for (const auto& [suffix, truth] : {std::pair<std::string, TruthSpec>{"", TruthSpec{}},
                                      {", published", TruthSpec::Published()}}) {
    LAGOON_ASSIGN_OR_RETURN(const Judged judged, Measure(truth, options.seed));
    const std::vector<Way> ways = Ways();
    for (const Way& way : ways) {
      LAGOON_RETURN_IF_ERROR(
          AddWay(way, judged, options.seed, suffix, &way == &ways.back(), figure));
    }
    double apart = 0;
    for (const MeasuredRow& row : judged.rows) {
      apart = std::max(apart, std::abs(row.together.latency_ms / row.row.observed_ms - 1));
    }
    figure.Find("simulated times, furthest from the printed ones" + suffix, apart);
  }
  return figure;
}

Result<Figure> InssFigure2Printed(const FigureOptions& options) {
  Figure figure;
  FigurePanel panel{"ResNet-50 on 40 % beside AlexNet and VGG-16", "rows", "slower by, %", {}};
  LAGOON_ASSIGN_OR_RETURN(const double weak, AddFigure2({}, ", weak truth", options.seed, panel));
  LAGOON_ASSIGN_OR_RETURN(const double most,
                          AddFigure2(TruthSpec::Published(), "", options.seed, panel));
  figure.Compare("largest slowdown, %", 22.7, most, "InSS 2.2, Fig. 2");
  figure.Set("TruthSpec::Published is calibrated on it");
  figure.Compare("largest slowdown, weak truth, %", 22.7, weak, "InSS 2.2, Fig. 2");

  figure.Input("share_of_resnet50", 0.4);
  figure.Input("rows_of_neighbours", 8);
  figure.Input("gpus", 4);

  // What a placer loses that knows of no interference.
  FigurePanel lost{"Late or dropped, 4 GPUs", "load", "%", {}};
  for (const double load : {1.1, 1.2, 1.4}) {
    InssOptions cluster;
    cluster.truth = TruthSpec::Published();
    cluster.load = load;
    cluster.seed = options.seed;
    cluster.length = std::chrono::seconds(options.Scaled(180));
    cluster.warmup = cluster.length / 3;
    LAGOON_ASSIGN_OR_RETURN(const LatencyModels models,
                            FitToSimulator(cluster, InterferenceKind::kRidge));
    LAGOON_ASSIGN_OR_RETURN(const PlacementRun with, RunPlacer("inss", cluster, models, {}));
    LAGOON_ASSIGN_OR_RETURN(const PlacementRun without, RunPlacer("inss-ni", cluster, models, {}));
    lost.Add("inss", load, 100 * with.violations);
    lost.Add("inss-ni", load, 100 * without.violations);
    const double more = 100 * (without.violations - with.violations);
    figure.Compare(
        fmt::format("violations of inss-ni over inss at load {}, percentage points", load), 0.8,
        more, "InSS 6.3, Fig. 12");
  }
  figure.panels = {panel, lost};
  return figure;
}

}  // namespace lagoon::bench
