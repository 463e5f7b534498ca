// Figures 8 to 10, Tables 2, 3 and 5: throughput, latency and efficacy.

#include "bench/papers/figures_gslice.h"

#include <fmt/format.h>

#include <array>

#include "bench/papers/gslice_runs.h"

namespace lagoon::bench {
namespace {

constexpr double kSloMs = 25;
constexpr const char* kFitted = "the model's times were fitted to it";
constexpr std::array kSystems{GsliceSystem::kMps, GsliceSystem::kMpsSlab, GsliceSystem::kGslice};

constexpr GsliceModel kAlexNet{"alexnet", 0.30, true};
constexpr GsliceModel kMobileNet{"mobilenet", 0.30, true};
constexpr GsliceModel kResNet{"resnet50", 0.60, true};
constexpr GsliceModel kVgg16{"vgg16", 0.70};
constexpr GsliceModel kVgg19{"vgg19", 0.70};
constexpr GsliceModel kGnmt{"gnmt", 0.70};

}  // namespace

Result<Figure> GsliceFigure8(const FigureOptions& options) {
  struct Row {
    GsliceModel model;
    std::array<double, 3> paper;  // Table 2, by system
    bool default_is_set = false;  // cluster/v100_surfaces.cc takes the time from the first of these
  };
  constexpr std::array kRows{
      Row{kAlexNet, {235.75, 382.4, 579.41}},  Row{kMobileNet, {330.0, 341.2, 379.55}, true},
      Row{kResNet, {29.08, 42.4, 47.93}},      Row{kVgg19, {4.96, 5.11, 5.25}},
      Row{kVgg16, {3.79, 11.13, 12.49}, true}, Row{kGnmt, {1.97, 6.66, 6.74}, true}};
  Figure figure;
  AddInputs(GsliceSpec({&kRows[0].model, 1}, GsliceSystem::kMps, kSloMs, options), figure);
  FigurePanel throughput{"Throughput of a model alone", "", "images/s", {}};
  FigurePanel latency{"Mean time of a batch", "", "ms", {}};
  FigurePanel gue{"Efficacy: throughput / latency", "", "images/s/ms", {}};
  throughput.log_y = gue.log_y = true;
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    const Row& row = kRows[i];
    std::array<double, 3> seen{};
    for (std::size_t s = 0; s < kSystems.size(); ++s) {
      const std::span<const GsliceModel> one(&row.model, 1);
      const ClusterSpec spec = GsliceSpec(one, kSystems[s], kSloMs, options);
      LAGOON_ASSIGN_OR_RETURN(const SimReport report, RunGslice(spec, one));
      seen[s] = report.Efficacy();
      const std::string of = fmt::format("{}.{}", Name(kSystems[s]), row.model.name);
      figure.Compare("gue." + of, row.paper[s], seen[s], "GSLICE Table 2");
      if (s == 0 && row.default_is_set) figure.Set(kFitted);
      figure.Find("throughput_ips." + of, report.Throughput(0));
      figure.Find("batch_ms." + of, report.models[0].batch_time.MeanMs());
      figure.Find("violation_rate." + of, report.models[0].ViolationRate());
      const auto at = static_cast<double>(i);
      throughput.Add(Name(kSystems[s]), at, report.Throughput(0));
      latency.Add(Name(kSystems[s]), at, report.models[0].batch_time.MeanMs());
      gue.Add(Name(kSystems[s]), at, seen[s]);
    }
    for (const std::size_t s : {1, 2}) {
      figure.CompareGain(fmt::format("gue_vs_default.{}.{}", Name(kSystems[s]), row.model.name),
                         row.paper[s] / row.paper[0], seen[s] / seen[0], "GSLICE Table 2");
    }
    for (FigurePanel* panel : {&throughput, &latency, &gue}) {
      panel->groups.emplace_back(row.model.name);
    }
  }
  figure.panels = {std::move(throughput), std::move(latency), std::move(gue)};
  return figure;
}

namespace {

struct Combination {
  const char* name;
  std::vector<GsliceModel> models;
  std::array<double, 3> paper;  // Table 3, by system
};

std::vector<Combination> Combinations() {
  return {{"c1", {kAlexNet, kResNet}, {38.82, 72.69, 94.04}},
          {"c2", {kAlexNet, kVgg19}, {6.39, 15.76, 44.79}},
          {"c3", {kAlexNet, kResNet, kVgg19}, {3.38, 7.83, 24.59}},
          {"c4", {kAlexNet, kResNet, kVgg19, kMobileNet}, {2.01, 7.29, 19.98}}};
}

// What other assumptions give: default MPS by work, and models that slow each other down.
Status FindAlternatives(const Combination& combination, const FigureOptions& options,
                        Figure& figure) {
  ClusterSpec work = GsliceSpec(combination.models, GsliceSystem::kMps, kSloMs, options);
  work.mps = MpsRule::kWork;
  LAGOON_ASSIGN_OR_RETURN(const SimReport mps, RunGslice(work, combination.models));
  ClusterSpec neighbours = GsliceSpec(combination.models, GsliceSystem::kGslice, kSloMs, options);
  LAGOON_ASSIGN_OR_RETURN(const SimReport alone, RunGslice(neighbours, combination.models));
  for (ModelSpec& model : neighbours.models) model.cache = model.dram = 0.5;
  LAGOON_ASSIGN_OR_RETURN(const SimReport slowed, RunGslice(neighbours, combination.models));
  figure.Find(fmt::format("gue.default-mps-by-work.{}", combination.name), mps.Efficacy());
  figure.CompareGain(fmt::format("gue_vs_default_by_work.{}", combination.name),
                     combination.paper[2] / combination.paper[0], alone.Efficacy() / mps.Efficacy(),
                     "GSLICE Table 3");
  figure.Find(fmt::format("gue.gslice-with-interference.{}", combination.name), slowed.Efficacy());
  return {};
}

}  // namespace

Result<Figure> GsliceFigure10(const FigureOptions& options) {
  Figure figure;
  AddInputs(GsliceSpec({&kAlexNet, 1}, GsliceSystem::kMps, kSloMs, options), figure);
  FigurePanel throughput{"Throughput of all models", "", "images/s", {}};
  FigurePanel gue{"Efficacy: throughput / mean time", "", "images/s/ms", {}};
  throughput.log_y = gue.log_y = true;
  double at = 0;
  for (const Combination& combination : Combinations()) {
    std::array<double, 3> seen{}, total{};
    for (std::size_t s = 0; s < kSystems.size(); ++s) {
      const ClusterSpec spec = GsliceSpec(combination.models, kSystems[s], kSloMs, options);
      LAGOON_ASSIGN_OR_RETURN(const SimReport report, RunGslice(spec, combination.models));
      seen[s] = report.Efficacy();
      const std::string of = fmt::format("{}.{}", Name(kSystems[s]), combination.name);
      figure.Compare("gue." + of, combination.paper[s], seen[s], "GSLICE Table 3");
      for (std::size_t i = 0; i < report.models.size(); ++i) {
        const ModelReport& model = report.models[i];
        total[s] += report.Throughput(i);
        figure.Find(fmt::format("throughput_ips.{}.{}", of, model.name), report.Throughput(i));
        figure.Find(fmt::format("violation_rate.{}.{}", of, model.name), model.ViolationRate());
        if (model.name == "vgg19" && s > 0 && report.models.size() > 2) {
          figure.Compare(fmt::format("vgg19_ips.{}", of), s == 1 ? 32 : 22, report.Throughput(i),
                         "GSLICE 4.2");
        }
      }
      throughput.Add(Name(kSystems[s]), at, total[s]);
      gue.Add(Name(kSystems[s]), at, seen[s]);
    }
    figure.CompareGain(fmt::format("gue_vs_default.mps-slab.{}", combination.name),
                       combination.paper[1] / combination.paper[0], seen[1] / seen[0],
                       "GSLICE Table 3");
    figure.CompareGain(fmt::format("gue_vs_default.{}", combination.name),
                       combination.paper[2] / combination.paper[0], seen[2] / seen[0],
                       "GSLICE Table 3");
    figure.CompareGainRange(fmt::format("throughput_vs_default.{}", combination.name), {6, 13},
                            total[2] / total[0], "GSLICE 4.2");
    figure.CompareGainRange(fmt::format("throughput_vs_mps-slab.{}", combination.name), {1.2, 4},
                            total[2] / total[1], "GSLICE 4.2");
    LAGOON_RETURN_IF_ERROR(FindAlternatives(combination, options, figure));
    throughput.groups.emplace_back(combination.name);
    gue.groups.emplace_back(combination.name);
    ++at;
  }
  figure.panels = {std::move(throughput), std::move(gue)};
  return figure;
}

Result<Figure> GsliceTable5(const FigureOptions& options) {
  struct Row {
    GsliceModel model;
    std::array<double, 3> ms, ips;
  };
  constexpr std::array kRows{Row{kResNet, {9.75, 14.5, 25.9}, {816, 1088, 1152}},
                             Row{kVgg19, {30.54, 40.95, 63.12}, {264, 400, 512}}};
  Figure figure;
  AddInputs(GsliceSpec({&kResNet, 1}, GsliceSystem::kMps, kSloMs, options), figure);
  FigurePanel panel{"Throughput of fixed batches", "rows of a batch", "images/s", {}};
  for (const Row& row : kRows) {
    for (std::size_t i = 0; i < 3; ++i) {
      const std::span<const GsliceModel> one(&row.model, 1);
      ClusterSpec spec = GsliceSpec(one, GsliceSystem::kMps, kSloMs, options);
      spec.models[0].batching.rows = 8 << i;
      LAGOON_ASSIGN_OR_RETURN(const SimReport report, RunGslice(spec, one));
      const std::string of = fmt::format("{}.rows{}", row.model.name, 8 << i);
      figure.Compare("batch_ms." + of, row.ms[i], report.models[0].batch_time.MeanMs(),
                     "GSLICE Table 5");
      figure.Set(kFitted);
      figure.Compare("throughput_ips." + of, row.ips[i], report.Throughput(0), "GSLICE Table 5");
      figure.Set(kFitted);
      panel.Add(row.model.name, 8 << i, report.Throughput(0));
      panel.Add(std::string(row.model.name) + ", paper", 8 << i, row.ips[i]);
    }
  }
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace lagoon::bench
