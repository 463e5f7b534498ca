#include "sim/interference/fit.h"

#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "base/text.h"
#include "sim/interference/local_regression.h"

namespace lagoon {
namespace {

using Points = std::span<const MeasuredPoint>;
using Pointers = std::vector<const MeasuredPoint*>;

constexpr std::size_t kLeastAlone = 4;
// Weights of the distance from what is expected: of a model's coefficients from the common ones
// (as much as a third of a measurement at full load), and of those from the mean.
constexpr double kRidge = 0.3, kCommonRidge = 0.01;

Pointers AloneOf(Points points, std::string_view model) {
  Pointers found;
  for (const MeasuredPoint& point : points) {
    if (point.model == model && point.neighbours.empty()) found.push_back(&point);
  }
  return found;
}

Status CheckModel(Points points, const std::string& model) {
  const Pointers alone = AloneOf(points, model);
  if (alone.size() < kLeastAlone) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model {} has {} points without neighbours, needs at least {}",
                            Quoted(model), alone.size(), kLeastAlone));
  }
  const auto loads = std::ranges::count_if(
      alone, [](const MeasuredPoint* point) { return point->load.has_value(); });
  if (loads == 0 || loads == static_cast<std::ptrdiff_t>(alone.size())) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("model {} has loads on {} of its {} points without neighbours; they must "
                          "be on all or on none",
                          Quoted(model), loads, alone.size()));
}

// The values in ascending order, each once.
template <typename T>
std::vector<T> Sorted(std::set<T> values) {
  return {values.begin(), values.end()};
}

// The measured shares, and some beyond them, where the regression continues the times.
std::vector<double> SharesFor(const Pointers& alone) {
  std::set<double> shares;
  for (const MeasuredPoint* point : alone) shares.insert(point->share);
  const double least = *shares.begin(), most = *shares.rbegin();
  for (const double below : {least / 4, least / 2}) shares.insert(std::max(0.001, below));
  shares.insert(most < 1 ? 1.0 : most);
  std::vector<double> kept;
  for (const double share : shares) {
    if (kept.empty() || share - kept.back() >= 1e-6) kept.push_back(share);
  }
  return kept;
}

Result<Surface> FitAlone(const Pointers& alone) {
  std::vector<TimedPoint> timed;
  std::map<std::pair<std::int64_t, double>, std::pair<double, int>> measured;  // sum, count
  std::set<std::int64_t> rows;
  for (const MeasuredPoint* point : alone) {
    timed.push_back({point->rows, point->share, point->latency_ms});
    auto& [sum, count] = measured[{point->rows, point->share}];
    sum += point->latency_ms;
    ++count;
    rows.insert(point->rows);
  }
  if (rows.size() > 64) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("has {} numbers of rows, may have 64", rows.size()));
  }
  SurfacePoints points;
  points.rows = Sorted(std::move(rows));
  points.shares = SharesFor(alone);
  for (const std::int64_t b : points.rows) {
    std::vector<double>& line = points.latency_ms.emplace_back();
    for (const double share : points.shares) {
      const auto found = measured.find({b, share});
      line.push_back(found != measured.end() ? found->second.first / found->second.second
                                             : LocalRegression(timed, b, share));
    }
  }
  return Surface::FromPoints(std::move(points));
}

double RowsPerS(const MeasuredPoint& point) {
  return static_cast<double>(point.rows) / point.latency_ms * 1e3;
}

// The least-squares line of `y` over `x`.
LoadLine FitLine(const std::vector<double>& x, const std::vector<double>& y) {
  const auto count = static_cast<double>(x.size());
  double mean_x = 0, mean_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    mean_x += x[i] / count;
    mean_y += y[i] / count;
  }
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

// A measured slowdown of a model, and the neighbours' loads as the models predict them.
struct SlowdownPoint {
  double slowdown = 0;  // measured / predicted alone - 1
  DeviceLoad load;
};

std::vector<SlowdownPoint> SlowdownsOf(Points points, const std::string& model,
                                       const LatencyModels& alone) {
  std::vector<SlowdownPoint> found;
  for (const MeasuredPoint& point : points) {
    if (point.model != model || point.neighbours.empty()) continue;
    SlowdownPoint& seen = found.emplace_back();
    const LatencyModel& own = alone.find(model)->second;
    seen.slowdown = point.latency_ms / own.AloneMs(point.rows, point.share) - 1;
    for (const MeasuredNeighbour& neighbour : point.neighbours) {
      seen.load += alone.find(neighbour.model)->second.LoadOf(neighbour.rows, neighbour.share);
    }
  }
  return found;
}

double MeanSlowdown(std::span<const SlowdownPoint> points) {
  double sum = 0;
  for (const SlowdownPoint& point : points) sum += point.slowdown;
  return points.empty() ? 0 : sum / static_cast<double>(points.size());
}

// Two coefficients, by least squares; the shortest solution if there are many.
SlowdownTerms FitPaper(std::span<const SlowdownPoint> points) {
  Eigen::MatrixXd left(points.size(), 2);
  Eigen::VectorXd right(points.size());
  for (Eigen::Index i = 0; i < left.rows(); ++i) {
    const SlowdownPoint& point = points[static_cast<std::size_t>(i)];
    left.row(i) << point.load.cache, point.load.dram;
    right[i] = point.slowdown;
  }
  const Eigen::VectorXd found = left.completeOrthogonalDecomposition().solve(right);
  return {0, found[0], found[1]};
}

// The coefficients that fit `points` best and are near `prior`; `ridge` weighs their squared
// distance from it.
SlowdownTerms FitNear(std::span<const SlowdownPoint> points, const SlowdownTerms& prior,
                      double ridge) {
  const Eigen::Vector3d from(prior.constant, prior.cache, prior.dram);
  Eigen::Matrix3d left = ridge * Eigen::Matrix3d::Identity();
  Eigen::Vector3d right = Eigen::Vector3d::Zero();
  for (const SlowdownPoint& point : points) {
    const Eigen::Vector3d basis(1, point.load.cache, point.load.dram);
    left += basis * basis.transpose();
    right += basis * (point.slowdown - basis.dot(from));
  }
  const Eigen::Vector3d found = from + left.ldlt().solve(right);
  return {found[0], found[1], found[2]};
}

// The terms that all models have in common, by a ridge towards the mean slowdown.
SlowdownTerms FitCommon(std::span<const SlowdownPoint> all) {
  return FitNear(all, {MeanSlowdown(all), 0, 0}, kCommonRidge);
}

SlowdownTerms FitSlowdown(std::span<const SlowdownPoint> points, const SlowdownTerms& common,
                          InterferenceKind kind) {
  switch (kind) {
    case InterferenceKind::kNone:
      return {};
    case InterferenceKind::kConstant:
      return {points.empty() ? common.constant : MeanSlowdown(points), 0, 0};
    case InterferenceKind::kPaper:
      return points.empty() ? common : FitPaper(points);
    case InterferenceKind::kRidge:
      return FitNear(points, common, kRidge);
  }
  return {};
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
  }
  return "unknown";
}

Result<InterferenceKind> ParseInterferenceKind(std::string_view name) {
  for (const InterferenceKind kind : kInterferenceKinds) {
    if (Name(kind) == name) return kind;
  }
  return Fail(
      ErrorCode::kInvalidArgument,
      fmt::format("there is no kind of interference '{}'; there are none, paper, constant, ridge",
                  name));
}

Result<LatencyModels> FitLatencyModels(Points points, InterferenceKind kind) {
  LatencyModels alone, fitted;
  const std::vector<std::string> names = ModelsOf(points);
  for (const std::string& name : names) {
    LAGOON_RETURN_IF_ERROR(CheckModel(points, name));
    const Pointers own = AloneOf(points, name);
    auto surface = FitAlone(own);
    if (!surface) return Annotate(fmt::format("model {}", Quoted(name)), surface.error());
    const LoadLines loads = FitLoads(own);
    alone.emplace(name, LatencyModel(*std::move(surface), loads.cache, loads.dram, {}));
  }
  std::map<std::string, std::vector<SlowdownPoint>> slowdowns;
  std::vector<SlowdownPoint> all;
  for (const std::string& name : names) {
    const auto& own = slowdowns[name] = SlowdownsOf(points, name, alone);
    all.insert(all.end(), own.begin(), own.end());
  }
  const SlowdownTerms common =
      kind == InterferenceKind::kConstant ? SlowdownTerms{MeanSlowdown(all), 0, 0} : FitCommon(all);
  for (const auto& [name, model] : alone) {
    const SlowdownTerms terms = FitSlowdown(slowdowns[name], common, kind);
    fitted.emplace(name, LatencyModel(model.alone(), model.cache(), model.dram(), terms));
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
