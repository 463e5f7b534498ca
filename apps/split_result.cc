#include "apps/split_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lagoon {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kScanPositions = 48;

const char* NameOf(CutMode mode) { return mode == CutMode::kPlan ? "plan" : "onnx"; }

std::string CostOfCut(const CutCost& cost) {
  if (cost.mode == CutMode::kPlan) {
    return fmt::format("a cut costs {:.1f} us between two kernels", cost.bubble_us);
  }
  return fmt::format("a part is an ONNX model: {:.1f} us for its call, and copies at {:.0f} MB/s",
                     cost.session_us, cost.bytes_per_us);
}

void PrintTried(const SplitOutcome& outcome) {
  std::printf("%5s %10s %9s %8s %9s %9s %10s %11s %11s\n", "parts", "sigma us", "overhead", "range",
              "fitness", "optimum", "wait us", "generations", "evaluations");
  for (const PartsTried& tried : outcome.tried) {
    const SplitShape& shape = tried.found.best.front().shape;
    std::printf("%5u %10.1f %7.2f %% %6.2f %% %9.4f %8.4f%s %10.1f %11zu %11d\n", tried.parts,
                shape.sigma_us, 100 * shape.overhead, 100 * shape.range, shape.fitness,
                tried.optimal.candidate.shape.fitness, tried.optimal.exact ? " " : "?",
                shape.wait_us, tried.found.generations.size(), tried.found.evaluations);
  }
}

std::string Why(const SplitOutcome& outcome) {
  const PartsTried& chosen = outcome.tried[outcome.chosen];
  if (outcome.tried.size() == 1) return fmt::format("{} parts, as asked", chosen.parts);
  const auto fitness = [](const PartsTried& tried) { return tried.found.best[0].shape.fitness; };
  const auto best = std::ranges::max_element(outcome.tried, {}, fitness);
  if (best->parts == chosen.parts) {
    return fmt::format("{} parts have the best fitness (Eq. 2 of SPLIT)", chosen.parts);
  }
  return fmt::format(
      "{} parts: their fitness is within {} of that of {} parts, and shorter parts mean a shorter "
      "wait (Eq. 1 of SPLIT)",
      chosen.parts, outcome.tie, best->parts);
}

void PrintMeasured(const SplitOutcome& outcome) {
  if (outcome.tried.front().measured.empty()) return;
  std::printf("\nThe best candidates, predicted and measured (medians of %d runs); * is kept\n",
              outcome.runs);
  std::printf("%5s   %21s %21s %19s  %s\n", "parts", "sigma us", "overhead", "fitness", "ends");
  for (const PartsTried& tried : outcome.tried) {
    for (std::size_t i = 0; i < tried.measured.size(); ++i) {
      const SplitShape& predicted = tried.found.best[i].shape;
      const SplitShape& measured = tried.measured[i];
      std::printf("%5u %c %10.1f %10.1f %8.2f %% %8.2f %% %9.4f %9.4f  %s\n", tried.parts,
                  i == tried.kept ? '*' : ' ', predicted.sigma_us, measured.sigma_us,
                  100 * predicted.overhead, 100 * measured.overhead, predicted.fitness,
                  measured.fitness,
                  fmt::format("{}", fmt::join(tried.found.best[i].ends, ",")).c_str());
    }
  }
  std::printf("Between two parts: %.1f us measured\n", outcome.tried[outcome.chosen].bubble_us);
}

void PrintParts(const SplitOutcome& outcome) {
  const PartsTried& chosen = outcome.tried[outcome.chosen];
  const bool measured = !chosen.measured.empty();
  std::printf("\n%4s %11s %10s %11s  %s\n", "part", "kernels", "us", measured ? "measured" : "",
              "last kernel");
  std::uint32_t begin = 0;
  for (std::size_t part = 0; part < chosen.parts; ++part) {
    const std::uint32_t end = chosen.best().ends[part];
    std::printf(
        "%4zu %5u-%-5u %10.1f %11s  %s\n", part + 1, begin, end - 1,
        chosen.best().shape.part_us[part],
        measured ? fmt::format("{:.1f}", chosen.measured[chosen.kept].part_us[part]).c_str() : "",
        outcome.ops[end - 1].c_str());
    begin = end;
  }
}

}  // namespace

SplitShape MeasuredShape(const PartTimes& times, Nanoseconds whole) {
  SplitModel model;
  std::vector<std::uint32_t> ends;
  for (const Nanoseconds part : times.parts) {
    model.op_us.push_back(ToMicroseconds(part));
    ends.push_back(static_cast<std::uint32_t>(model.op_us.size()));
  }
  SplitShape shape = PartCosts(model).Shape(ends);
  const double whole_us = ToMicroseconds(whole);
  // Parts do not make a model faster: below 0 is noise.
  shape.overhead = std::max(ToMicroseconds(times.whole) / whole_us - 1, 0.0);
  shape.fitness = SplitFitness(shape.sigma_us, shape.overhead, whole_us,
                               static_cast<std::uint32_t>(ends.size()));
  return shape;
}

void PrintSplit(const SplitOutcome& outcome) {
  std::printf("model %s: %zu kernels, %.1f us; %s\n\n", outcome.model.c_str(), outcome.ops.size(),
              outcome.whole_us, CostOfCut(outcome.costs.cost).c_str());
  PrintTried(outcome);
  std::printf("%s\n", Why(outcome).c_str());
  PrintMeasured(outcome);
  PrintParts(outcome);
}

void ReportSplit(const SplitOutcome& outcome, bench::Report& report) {
  const std::string& model = outcome.model;
  const char* const mode = NameOf(outcome.costs.cost.mode);
  report.Metric("split_whole_us." + model, outcome.whole_us);
  report.Metric("split_parts." + model, outcome.tried[outcome.chosen].parts);
  Json ends = Json::object();
  for (const PartsTried& tried : outcome.tried) {
    const std::string name = fmt::format("{}.{}.{}", model, tried.parts, mode);
    const auto add = [&](std::string_view kind, const SplitShape& shape) {
      const auto metric = [&](std::string_view value, double of) {
        report.Metric(fmt::format("split_{}{}.{}", value, kind, name), of);
      };
      metric("sigma_us", shape.sigma_us);
      metric("overhead", shape.overhead);
      metric("range", shape.range);
      metric("fitness", shape.fitness);
      metric("wait_us", shape.wait_us);
    };
    add("", tried.found.best.front().shape);
    add("_optimal", tried.optimal.candidate.shape);
    if (!tried.measured.empty()) add("_measured", tried.measured[tried.kept]);
    report.Metric("split_generations." + name, static_cast<double>(tried.found.generations.size()));
    report.Metric("split_evaluations." + name, tried.found.evaluations);
    if (!tried.measured.empty()) report.Metric("split_bubble_us." + name, tried.bubble_us);
    ends[std::to_string(tried.parts)] = tried.best().ends;
  }
  report.Field("part_ends", std::move(ends));
}

void ReportScan(const SplitOutcome& outcome, bench::Report& report) {
  const PartCosts costs(outcome.costs);
  std::vector<std::uint32_t> positions;
  const std::size_t count = std::min<std::size_t>(costs.ops() - 1, kScanPositions);
  for (std::size_t i = 0; i < count; ++i) {
    positions.push_back(static_cast<std::uint32_t>(1 + i * (costs.ops() - 1) / count));
  }
  Json overhead = Json::array(), sigma = Json::array();
  for (const std::uint32_t first : positions) {
    Json overhead_row = Json::array(), sigma_row = Json::array();
    for (const std::uint32_t second : positions) {
      const bool fits = first < second;
      const std::uint32_t ends[] = {first, second, costs.ops()};
      const SplitShape shape = fits ? costs.Shape(ends) : SplitShape{};
      overhead_row.push_back(fits ? Json(shape.overhead) : Json());
      sigma_row.push_back(fits ? Json(shape.sigma_us / costs.whole_us()) : Json());
    }
    overhead.push_back(std::move(overhead_row));
    sigma.push_back(std::move(sigma_row));
  }
  Json scan = {{"model", outcome.model},
               {"mode", NameOf(outcome.costs.cost.mode)},
               {"ops", costs.ops()},
               {"positions", positions},
               {"overhead", std::move(overhead)},
               {"sigma", std::move(sigma)}};
  const auto three = std::ranges::find(outcome.tried, 3U, &PartsTried::parts);
  if (three != outcome.tried.end()) scan["best"] = three->best().ends;
  report.Field("scan", std::move(scan));
}

}  // namespace lagoon
