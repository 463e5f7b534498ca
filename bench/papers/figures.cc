#include "bench/papers/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/papers/figures_gslice.h"
#include "bench/papers/figures_gslice_kernels.h"
#include "bench/papers/figures_inss.h"
#include "bench/papers/figures_paella.h"
#include "bench/papers/figures_reef.h"

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;

// A factor that differs by so little is the same: of a slow-down of 0.5 % nothing else can be said.
constexpr double kSame = 0.01;
// A factor that is no further from 1 is no gain.
constexpr double kNoGain = 0.001;

constexpr std::string_view kNoKernels =
    "it measures what real code costs on a real GPU; a simulated device has none";
constexpr std::string_view kBlockEvents =
    "it measures what real code costs on a real GPU: `lagoon bench block-events` does on a CPU";
constexpr std::string_view kNoFramework =
    "it measures the host's serving frameworks, which a simulated device does not have";
constexpr std::string_view kNoClients =
    "it measures the processor time of a client that waits; a simulated device has no clients";
constexpr std::string_view kInputs =
    "it shows times and units of real kernels: the simulator's kernel lists take them as inputs";
constexpr std::string_view kNoTensorRt =
    "it compares with TensorRT's server on a real GPU; a simulated device has none";
constexpr std::string_view kHostTime =
    "its gains are over a server that spends 0.7 ms of host time between two batches, which the "
    "published times of models contain; `lagoon bench batching` measures the same steps on the CPU";
constexpr std::string_view kNoCounters =
    "it shows counters of a real GPU's cache and memory; the simulator assumes such a line";
constexpr std::string_view kTraining =
    "it shows the training, which takes minutes: `lagoon train placement` writes its curve";
constexpr std::string_view kNoMps =
    "it measures MPS and MIG of a real GPU; `lagoon bench shares --switch` measures Lagoon's moves";
constexpr std::string_view kRealMemory =
    "it is about memory and load times of real programs; `lagoon bench instances` measures them on "
    "the CPU";

constexpr std::array kTable{
    FigureInfo{"paella-1", "Paella Figure 1: four tasks on two units", PaellaFigure1},
    FigureInfo{"paella-2", "Paella Figure 2: head-of-line blocking, gtx1660s", PaellaFigure2},
    FigureInfo{"paella-9", "Paella Figure 9: delay of the scheduler, t4", PaellaFigure9},
    FigureInfo{"paella-11", "Paella Figure 11: eight models, t4", PaellaFigure11},
    FigureInfo{"paella-12", "Paella Figure 12: short and long jobs, t4", PaellaFigure12},
    FigureInfo{"paella-13", "Paella Figure 13: the fairness threshold, t4", PaellaFigure13},
    FigureInfo{"reef-1", "REEF Figure 1: real-time rate and best-effort work, mi50", ReefFigure1},
    FigureInfo{"reef-15", "REEF Figure 15: DISB, mi50", ReefFigure15},
    FigureInfo{"reef-16", "REEF Figure 16: DISB, gv100", ReefFigure16},
    FigureInfo{"reef-17", "REEF Figure 17: preemption latency in DISB", ReefFigure17},
    FigureInfo{"reef-18", "REEF Figure 18: preemption latency by model", ReefFigure18},
    FigureInfo{"reef-19", "REEF Figure 19: preemption latency by kernels, mi50", ReefFigure19},
    FigureInfo{"reef-20", "REEF Figure 20: preemption latency by clients, mi50", ReefFigure20},
    FigureInfo{"reef-21", "REEF Figure 21: depth of the device's queue, mi50", ReefFigure21},
    FigureInfo{"reef-22", "REEF Figure 22: what a restored task loses", ReefFigure22},
    FigureInfo{"reef-23", "REEF Figure 23: pairs of models, mi50", ReefFigure23},
    FigureInfo{"reef-24", "REEF Figure 24: units in use, mi50", ReefFigure24},
    FigureInfo{"reef-26", "REEF Figure 26: choice of kernels, mi50", ReefFigure26},
    FigureInfo{"reef-27", "REEF Figure 27: what padding costs, mi50", ReefFigure27},
    FigureInfo{"reef-28", "REEF Figure 28: beside Triton, gv100", ReefFigure28},
    FigureInfo{"reef-29", "REEF Figure 29: beside Orion, gv100", ReefFigure29},
    FigureInfo{"reef-30", "REEF Figure 30: language models, gv100", ReefFigure30},
    FigureInfo{"gslice-8", "GSLICE Figures 8, 9, Table 2: alone, batch-level sim of a V100",
               GsliceFigure8},
    FigureInfo{"gslice-10", "GSLICE Figure 10, Table 3: together, batch-level sim of a V100",
               GsliceFigure10},
    FigureInfo{"gslice-table-5", "GSLICE Table 5: fixed batches, batch-level sim of a V100",
               GsliceTable5},
    FigureInfo{"gslice-14", "GSLICE Figures 12c, 14: batch limits, batch-level sim of a V100",
               GsliceFigure14},
    FigureInfo{"gslice-15", "GSLICE Figure 15: two models, batch-level sim of a V100",
               GsliceFigure15},
    FigureInfo{"gslice-16", "GSLICE Figure 16: shares, batch-level sim of a V100", GsliceFigure16},
    FigureInfo{"gslice-table-1", "GSLICE Table 1: parameter sharing", nullptr, kRealMemory},
    FigureInfo{"gslice-11", "GSLICE Figure 11, Table 4", nullptr, kNoTensorRt},
    FigureInfo{"gslice-12", "GSLICE Figures 12a, 12b", nullptr, kHostTime},
    FigureInfo{"gslice-1", "GSLICE Figure 1: three models, kernels on v100", GsliceFigure1},
    FigureInfo{"gslice-2", "GSLICE Figures 2 and 3: knees, kernels on v100", GsliceFigure2},
    FigureInfo{"gslice-5", "GSLICE Figure 5a: streams of one model, v100", GsliceFigure5},
    FigureInfo{"gslice-7", "GSLICE Figures 6 and 7: streams and shares, v100", GsliceFigure7},
    FigureInfo{"gslice-switch", "GSLICE 3.2.4: moving a share, v100", GsliceSwitch},
    FigureInfo{"inss-1", "InSS Figure 1: models over their share, batch-level sim of A100s",
               InssFigure1},
    FigureInfo{"inss-2", "InSS Figure 2: neighbours, batch-level sim of A100s", InssFigure2},
    FigureInfo{"inss-2-printed", "InSS Figure 2 as printed, and what interference costs inss-ni",
               InssFigure2Printed},
    FigureInfo{"inss-table-3", "InSS Tables 3 and 4: error of the latency model", InssTable3},
    FigureInfo{"inss-table-4", "InSS Tables 3 and 4, row by row: latency model", InssTable4},
    FigureInfo{"inss-10", "InSS Figures 10 and 12: throughput and violations, 4 GPUs",
               InssFigure10},
    FigureInfo{"inss-11", "InSS Figures 11 and 15: over time, 4 GPUs", InssFigure11},
    FigureInfo{"inss-13", "InSS Figures 13 and 14: latency of two models, 4 GPUs", InssFigure13},
    FigureInfo{"inss-16", "InSS Figures 16 to 18: 64 GPUs", InssFigure16},
    FigureInfo{"inss-19", "InSS Figures 3 and 19: time of a decision, 4 to 64 GPUs", InssFigure19},
    FigureInfo{"inss-eq-3", "InSS Eq. 3: what a request will see, batch-level sim of an A100",
               InssEquation3},
    FigureInfo{"inss-6", "InSS Figures 6 and 7", nullptr, kNoCounters},
    FigureInfo{"inss-8", "InSS Figures 8 and 9", nullptr, kTraining},
    FigureInfo{"inss-table-1", "InSS Table 1", nullptr, kNoMps},
    FigureInfo{"paella-3", "Paella Figure 3", nullptr, kNoFramework},
    FigureInfo{"paella-4", "Paella Figure 4", nullptr, kNoKernels},
    FigureInfo{"paella-10", "Paella Figure 10", nullptr, kNoFramework},
    FigureInfo{"paella-14", "Paella Figure 14", nullptr, kNoClients},
    FigureInfo{"paella-15", "Paella Figure 15", nullptr, kBlockEvents},
    FigureInfo{"reef-3", "REEF Figure 3", nullptr, kInputs},
    FigureInfo{"reef-13", "REEF Figure 13", nullptr, kInputs},
    FigureInfo{"reef-14", "REEF Figure 14", nullptr, kNoKernels},
    FigureInfo{"reef-25", "REEF Figure 25", nullptr, kNoKernels},
};

// The figures of a paper that can run.
Result<std::vector<const FigureInfo*>> OfPaper(const std::string& paper) {
  std::vector<const FigureInfo*> chosen;
  for (const FigureInfo& info : kTable) {
    const bool of = paper.empty() || info.name.starts_with(paper + "-");
    if (of && info.run != nullptr) chosen.push_back(&info);
  }
  if (!chosen.empty()) return chosen;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("there is no figure of paper '{}'; papers are gslice, inss, paella, reef",
                          paper));
}

Result<std::vector<const FigureInfo*>> Choose(const std::vector<std::string>& only,
                                              const std::string& paper) {
  if (only.empty()) return OfPaper(paper);
  std::vector<const FigureInfo*> chosen;
  for (const std::string& name : only) {
    const auto found = std::find_if(kTable.begin(), kTable.end(),
                                    [&](const FigureInfo& info) { return info.name == name; });
    if (found == kTable.end()) {
      std::string names;
      for (const FigureInfo& info : kTable) {
        if (info.run != nullptr) names += fmt::format("{}{}", names.empty() ? "" : ", ", info.name);
      }
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("there is no figure '{}'; there are: {}", name, names));
    }
    if (found->run == nullptr) {
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("figure '{}' cannot run on a simulated device: {}", name, found->refused));
    }
    chosen.push_back(&*found);
  }
  return chosen;
}

// The distance from the nearest published number, in percent of that number. For a gain, the
// percent are of what the paper gains: 1.1 is 80 % less than 1.5.
double OffPercent(const FigureNumber& number) {
  const double paper = std::clamp(number.got, number.least, number.most);
  if (number.got == paper) return 0;
  if (!number.gain || paper == 1) return (number.got / paper - 1) * 100;
  return ((number.got - 1) / (paper - 1) - 1) * 100;
}

// Rounds to four digits: a simulation is not more precise.
double Rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

Json JsonOf(const FigurePanel& panel) {
  Json series = Json::array();
  for (const FigureSeries& one : panel.series) {
    Json x = Json::array(), y = Json::array();
    for (const double value : one.x) x.push_back(Rounded(value));
    for (const double value : one.y) y.push_back(Rounded(value));
    series.push_back({{"name", one.name}, {"x", std::move(x)}, {"y", std::move(y)}});
  }
  return {{"title", panel.title}, {"x", panel.x},         {"y", panel.y},
          {"log_x", panel.log_x}, {"log_y", panel.log_y}, {"groups", panel.groups},
          {"series", series}};
}

Json PairsOf(const std::vector<std::pair<std::string, double>>& pairs) {
  Json list = Json::array();
  for (const auto& [name, value] : pairs) list.push_back({name, Rounded(value)});
  return list;
}

Json PaperOf(const FigureInfo& info, const Figure& figure, std::string& table) {
  Json list = Json::array();
  for (const FigureNumber& number : figure.numbers) {
    const bool one = number.least == number.most;
    const Json paper = one ? Json(number.least) : Json{number.least, number.most};
    const std::string shown =
        one ? fmt::format("{}", number.least) : fmt::format("{} to {}", number.least, number.most);
    const double off = OffPercent(number);
    table += fmt::format("{:<10} {:<58} {:>14} {:>9.4g} {:>+7.1f}%\n", info.name, number.metric,
                         shown, number.got, off);
    list.push_back({{"metric", number.metric},
                    {"paper", paper},
                    {"got", Rounded(number.got)},
                    {"off_percent", Rounded(off)},
                    {"set", number.set},
                    {"gain", number.gain},
                    {"verdict", VerdictOf(number)},
                    {"source", number.source}});
    if (!number.device.empty()) list.back()["device"] = number.device;
  }
  for (const auto& [metric, got] : figure.findings) {
    table += fmt::format("{:<10} {:<58} {:>14} {:>9.4g}\n", info.name, metric, "", got);
  }
  return list;
}

}  // namespace

std::string VerdictOf(const FigureNumber& number) {
  if (!number.verdict.empty()) return number.verdict;
  const double paper = std::clamp(number.got, number.least, number.most);
  const bool same = (number.got > 1) == (number.least > 1);
  const bool near_in_all = std::abs(number.got / paper - 1) <= kSame && same;
  if (number.gain && near_in_all && number.got != paper) return "reproduced within 1 %";
  const bool no_gain = !same || std::abs(number.got - 1) <= kNoGain;
  if (number.gain && number.least != 1 && no_gain) return "not reproduced";
  const double off = std::abs(OffPercent(number));
  if (off <= 25) {
    // Without the last digits, in which 2.1 is 5.000001 % more than 2.
    return fmt::format("reproduced within {:.0f} %", std::max(0.0, std::ceil(off - 1e-9)));
  }
  return number.gain && number.least != 1 ? "direction only" : "not reproduced";
}

void FigurePanel::Add(const std::string& name, double at, double value) {
  const auto found = std::find_if(series.begin(), series.end(),
                                  [&](const FigureSeries& one) { return one.name == name; });
  FigureSeries& one = found == series.end() ? series.emplace_back() : *found;
  one.name = name;
  one.x.push_back(at);
  one.y.push_back(value);
}

int FigureOptions::Scaled(int count) const {
  return std::max(3, static_cast<int>(std::lround(count * effort)));
}

std::span<const FigureInfo> FigureTable() { return kTable; }

Status RunFigures(const FiguresOptions& options, Report& report, std::string& table) {
  LAGOON_ASSIGN_OR_RETURN(const std::vector<const FigureInfo*> chosen,
                          Choose(options.only, options.paper));
  ProgressBar progress("bench figures", static_cast<int>(chosen.size()));
  table = fmt::format("{:<10} {:<58} {:>14} {:>9} {:>8}\n", "figure", "metric", "paper says",
                      "we got", "off");
  Json list = Json::array();
  for (const FigureInfo* info : chosen) {
    Result<Figure> figure = info->run(options);
    if (!figure) return Annotate(std::string(info->name), std::move(figure).error());
    Json panels = Json::array();
    for (const FigurePanel& panel : figure->panels) panels.push_back(JsonOf(panel));
    list.push_back({{"name", info->name},
                    {"title", info->title},
                    {"panels", std::move(panels)},
                    {"paper", PaperOf(*info, *figure, table)},
                    {"findings", PairsOf(figure->findings)},
                    {"inputs", PairsOf(figure->inputs)}});
    for (const FigureNumber& number : figure->numbers) {
      report.Metric(fmt::format("{}.{}", info->name, number.metric), number.got);
    }
    for (const auto& [metric, got] : figure->findings) {
      report.Metric(fmt::format("{}.{}", info->name, metric), got);
    }
    progress.Step(std::string(info->name));
  }
  Json refused = Json::array();
  for (const FigureInfo& info : kTable) {
    if (info.run != nullptr || options.paper.empty()) continue;
    if (!info.name.starts_with(options.paper + "-")) continue;
    refused.push_back({{"name", info.name}, {"title", info.title}, {"reason", info.refused}});
    table += fmt::format("{:<10} refused: {}\n", info.name, info.refused);
  }
  if (!refused.empty()) report.Field("refused", std::move(refused));
  report.Field("figures", std::move(list));
  return {};
}

}  // namespace lagoon::bench
