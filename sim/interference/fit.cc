#include "sim/interference/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "base/text.h"
#include "sim/interference/fit_alone.h"
#include "sim/interference/fit_slowdown.h"

namespace lagoon {
namespace {

using Points = std::span<const MeasuredPoint>;
using Pointers = std::vector<const MeasuredPoint*>;

constexpr std::size_t kLeastAlone = 4;

Pointers AloneOf(Points points, std::string_view model) {
  Pointers found;
  for (const MeasuredPoint& point : points) {
    if (point.model == model && point.neighbours.empty()) found.push_back(&point);
  }
  return found;
}

Status CheckAllOrNone(const std::string& model, const char* what, const Pointers& alone,
                      bool (*has)(const MeasuredPoint*)) {
  const auto count = std::ranges::count_if(alone, has);
  if (count == 0 || count == static_cast<std::ptrdiff_t>(alone.size())) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("model {} has {} on {} of its {} points without neighbours; they must be "
                          "on all or on none",
                          Quoted(model), what, count, alone.size()));
}

Status CheckModel(Points points, const std::string& model) {
  const Pointers alone = AloneOf(points, model);
  if (alone.size() < kLeastAlone) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model {} has {} points without neighbours, needs at least {}",
                            Quoted(model), alone.size(), kLeastAlone));
  }
  LAGOON_RETURN_IF_ERROR(CheckAllOrNone(
      model, "loads", alone, [](const MeasuredPoint* point) { return point->load.has_value(); }));
  return CheckAllOrNone(model, "copies", alone,
                        [](const MeasuredPoint* point) { return point->copies.has_value(); });
}

Status CheckPoints(Points points) {
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Status status = CheckMeasuredPoint(points[i]);
    if (status) continue;
    return Annotate(fmt::format("points[{}], of model {}", i, Quoted(points[i].model)),
                    status.error());
  }
  return {};
}

// The time on the device: without copies.
double RunMs(const MeasuredPoint& point) {
  const MeasuredCopies copies = point.copies.value_or(MeasuredCopies{});
  return point.latency_ms - copies.up_ms - copies.down_ms;
}

// The values in ascending order, each once.
template <typename T>
std::vector<T> Sorted(std::set<T> values) {
  return {values.begin(), values.end()};
}

std::vector<TimedPoint> TimesOf(const Pointers& alone) {
  std::vector<TimedPoint> times;
  for (const MeasuredPoint* point : alone) {
    times.push_back({point->rows, point->share, RunMs(*point)});
  }
  return times;
}

double RowsPerS(const MeasuredPoint& point) {
  return static_cast<double>(point.rows) / RunMs(point) * 1e3;
}

double Mean(const std::vector<double>& values) {
  double mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  return mean;
}

// The least-squares line of `y` over `x`.
LoadLine FitLine(const std::vector<double>& x, const std::vector<double>& y) {
  const double mean_x = Mean(x), mean_y = Mean(y);
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean_x) * (x[i] - mean_x);
    xy += (x[i] - mean_x) * (y[i] - mean_y);
  }
  const double slope = xx > 0 ? xy / xx : 0;
  return {mean_y - slope * mean_x, slope};
}

struct LoadLines {
  LoadLine cache, dram;
};

LoadLines FitLoads(const Pointers& alone) {
  std::vector<double> rates, cache, dram;
  for (const MeasuredPoint* point : alone) {
    rates.push_back(RowsPerS(*point));
    if (!point->load) continue;
    cache.push_back(point->load->cache);
    dram.push_back(point->load->dram);
  }
  if (cache.empty()) {
    const LoadLine line = {0, 1 / *std::ranges::max_element(rates)};
    return {line, line};
  }
  return {FitLine(rates, cache), FitLine(rates, dram)};
}

// The least-squares line of `ms` over `rows` that neither falls nor begins below 0.
TransferLine FitTransfer(const std::vector<double>& rows, const std::vector<double>& ms) {
  const LoadLine line = FitLine(rows, ms);
  if (line.slope >= 0 && line.offset >= 0) return {line.slope, line.offset};
  if (line.slope < 0) return {0, line.offset + line.slope * Mean(rows)};
  double xx = 0, xy = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    xx += rows[i] * rows[i];
    xy += rows[i] * ms[i];
  }
  return {xy / xx, 0};
}

Transfers FitTransfers(const Pointers& alone) {
  std::vector<double> rows, up, down;
  for (const MeasuredPoint* point : alone) {
    if (!point->copies) return {};
    rows.push_back(static_cast<double>(point->rows));
    up.push_back(point->copies->up_ms);
    down.push_back(point->copies->down_ms);
  }
  return {FitTransfer(rows, up), FitTransfer(rows, down)};
}

std::vector<SlowdownPoint> SlowdownsOf(Points points, const std::string& model,
                                       const LatencyModels& alone) {
  std::vector<SlowdownPoint> found;
  for (const MeasuredPoint& point : points) {
    if (point.model != model || point.neighbours.empty()) continue;
    SlowdownPoint& seen = found.emplace_back();
    const LatencyModel& own = alone.find(model)->second;
    const double run_ms = point.latency_ms - own.transfers().At(point.rows);
    seen.slowdown = run_ms / own.alone().LatencyMs(point.rows, point.share) - 1;
    for (const MeasuredNeighbour& neighbour : point.neighbours) {
      seen.load += alone.find(neighbour.model)->second.LoadOf(neighbour.rows, neighbour.share);
    }
  }
  return found;
}

std::vector<std::string> ModelsOf(Points points) {
  std::set<std::string> models;
  for (const MeasuredPoint& point : points) {
    models.insert(point.model);
    for (const MeasuredNeighbour& neighbour : point.neighbours) models.insert(neighbour.model);
  }
  return Sorted(std::move(models));
}

// The set of neighbours, without their rows and shares.
std::vector<std::string> NeighbourNames(const MeasuredPoint& point) {
  std::vector<std::string> names;
  for (const MeasuredNeighbour& neighbour : point.neighbours) names.push_back(neighbour.model);
  std::ranges::sort(names);
  return names;
}

// Predicts the points with these indices.
Status AddErrors(const LatencyModels& models, Points points, std::span<const std::size_t> indices,
                 std::vector<PredictionError>& errors) {
  for (const std::size_t i : indices) {
    LAGOON_ASSIGN_OR_RETURN(const double predicted, Predict(models, points[i]));
    errors.push_back({i, predicted, predicted / points[i].latency_ms - 1});
  }
  return {};
}

}  // namespace

std::string_view Name(InterferenceKind kind) {
  switch (kind) {
    case InterferenceKind::kNone:
      return "none";
    case InterferenceKind::kPaper:
      return "paper";
    case InterferenceKind::kConstant:
      return "constant";
    case InterferenceKind::kRidge:
      return "ridge";
    case InterferenceKind::kSaturating:
      return "saturating";
  }
  return "unknown";
}

Result<InterferenceKind> ParseInterferenceKind(std::string_view name) {
  for (const InterferenceKind kind : kInterferenceKinds) {
    if (Name(kind) == name) return kind;
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("there is no kind of interference '{}'; there are none, paper, constant, "
                          "ridge, saturating",
                          name));
}

Result<LatencyModels> FitLatencyModels(Points points, InterferenceKind kind, AloneKind alone_kind) {
  LAGOON_RETURN_IF_ERROR(CheckPoints(points));
  LatencyModels alone, fitted;
  const std::vector<std::string> names = ModelsOf(points);
  for (const std::string& name : names) {
    LAGOON_RETURN_IF_ERROR(CheckModel(points, name));
    const Pointers own = AloneOf(points, name);
    auto surface = FitAlone(TimesOf(own), alone_kind);
    if (!surface) return Annotate(fmt::format("model {}", Quoted(name)), surface.error());
    const LoadLines loads = FitLoads(own);
    alone.emplace(
        name, LatencyModel(*std::move(surface), loads.cache, loads.dram, {}, FitTransfers(own)));
  }
  std::map<std::string, std::vector<SlowdownPoint>> slowdowns;
  std::vector<SlowdownPoint> all;
  for (const std::string& name : names) {
    const auto& own = slowdowns[name] = SlowdownsOf(points, name, alone);
    all.insert(all.end(), own.begin(), own.end());
  }
  const SlowdownTerms common = FitCommonSlowdown(all, kind);
  for (const auto& [name, model] : alone) {
    const SlowdownTerms terms = FitSlowdown(slowdowns[name], common, kind);
    fitted.emplace(
        name, LatencyModel(model.alone(), model.cache(), model.dram(), terms, model.transfers()));
  }
  return fitted;
}

Result<double> Predict(const LatencyModels& models, const MeasuredPoint& point) {
  const auto find = [&](const std::string& name) -> Result<const LatencyModel*> {
    const auto found = models.find(name);
    if (found != models.end()) return &found->second;
    return Fail(ErrorCode::kNotFound, fmt::format("there is no latency model of {}", Quoted(name)));
  };
  LAGOON_ASSIGN_OR_RETURN(const LatencyModel* own, find(point.model));
  std::vector<Neighbour> neighbours;
  for (const MeasuredNeighbour& neighbour : point.neighbours) {
    LAGOON_ASSIGN_OR_RETURN(const LatencyModel* model, find(neighbour.model));
    neighbours.push_back({model, neighbour.rows, neighbour.share});
  }
  return own->LatencyMs(point.rows, point.share, neighbours);
}

Result<std::vector<PredictionError>> PredictAll(const LatencyModels& models, Points points) {
  std::vector<std::size_t> all(points.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  std::vector<PredictionError> errors;
  LAGOON_RETURN_IF_ERROR(AddErrors(models, points, all, errors));
  return errors;
}

Result<std::vector<PredictionError>> PredictHeldOut(Points points, InterferenceKind kind) {
  using Group = std::pair<std::string, std::vector<std::string>>;
  std::map<Group, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].neighbours.empty()) continue;
    groups[{points[i].model, NeighbourNames(points[i])}].push_back(i);
  }
  std::vector<PredictionError> errors;
  for (const auto& [group, held_out] : groups) {
    std::vector<MeasuredPoint> rest;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (std::ranges::find(held_out, i) == held_out.end()) rest.push_back(points[i]);
    }
    LAGOON_ASSIGN_OR_RETURN(const LatencyModels models, FitLatencyModels(rest, kind));
    LAGOON_RETURN_IF_ERROR(AddErrors(models, points, held_out, errors));
  }
  std::ranges::sort(errors, {}, &PredictionError::point);
  return errors;
}

void OnlineCorrection::Measured(double measured_ms, double predicted_ms) {
  if (!(measured_ms > 0) || !(predicted_ms > 0)) return;
  constexpr double kWeight = 0.1;
  factor_ += kWeight * (std::clamp(measured_ms / predicted_ms, 0.8, 1.3) - factor_);
}

}  // namespace lagoon
