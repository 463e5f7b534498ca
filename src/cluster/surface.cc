#include "cluster/surface.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/check.h"
#include "cluster/checks.h"
#include "cluster/monotone.h"

namespace lagoon {
namespace {

constexpr std::size_t kMostRows = 64, kMostShares = 256;
constexpr double kLargestRows = 1e6, kLeastShare = 0.001;
constexpr std::size_t kSteps = 8;  // of the grid between two points

using Table = std::vector<std::vector<double>>;

tl::unexpected<Error> Wrong(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

template <typename T>
Status CheckAscends(const char* what, const std::vector<T>& values, std::size_t most, T gap) {
  if (values.empty() || values.size() > most) {
    return Wrong(fmt::format("{} has {} entries, must have 1 to {}", what, values.size(), most));
  }
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[i - 1] && values[i] - values[i - 1] >= gap) continue;
    return Wrong(fmt::format("{}[{}] is {}, must be above {}[{}], which is {}, by at least {}",
                             what, i, values[i], what, i - 1, values[i - 1], gap));
  }
  return {};
}

Status CheckTimes(const SurfacePoints& points) {
  if (points.latency_ms.size() != points.rows.size()) {
    return Wrong(fmt::format("latency_ms has {} lists, must have {}, one for each of rows",
                             points.latency_ms.size(), points.rows.size()));
  }
  for (std::size_t i = 0; i < points.rows.size(); ++i) {
    const std::vector<double>& times = points.latency_ms[i];
    if (times.size() != points.shares.size()) {
      return Wrong(
          fmt::format("latency_ms[{}] has {} entries, must have {}, one for each of shares", i,
                      times.size(), points.shares.size()));
    }
    for (std::size_t j = 0; j < times.size(); ++j) {
      LAGOON_RETURN_IF_ERROR(
          CheckBounds(fmt::format("latency_ms[{}][{}]", i, j), times[j], {1e-6, 1e9}));
    }
  }
  return {};
}

Status Check(const SurfacePoints& points) {
  for (const std::int64_t rows : points.rows) {
    LAGOON_RETURN_IF_ERROR(
        CheckBounds("an entry of rows", static_cast<double>(rows), {1, kLargestRows}));
  }
  for (const double share : points.shares) {
    LAGOON_RETURN_IF_ERROR(CheckBounds("an entry of shares", share, {kLeastShare, 1}));
  }
  LAGOON_RETURN_IF_ERROR(CheckAscends("rows", points.rows, kMostRows, std::int64_t{1}));
  LAGOON_RETURN_IF_ERROR(CheckAscends("shares", points.shares, kMostShares, 1e-6));
  return CheckTimes(points);
}

// times[i][j] becomes the largest one of those with both indexes at most i and j.
void RaiseToTheLargestBelow(Table& times) {
  for (std::size_t i = 0; i < times.size(); ++i) {
    for (std::size_t j = 0; j < times[i].size(); ++j) {
      if (i > 0) times[i][j] = std::max(times[i][j], times[i - 1][j]);
      if (j > 0) times[i][j] = std::max(times[i][j], times[i][j - 1]);
    }
  }
}

// A table that rises with both indexes and is equal to `times` if `times` does so already.
Table Smooth(const Table& times) {
  Table above = times, below = times;
  RaiseToTheLargestBelow(above);
  for (std::size_t i = below.size(); i-- > 0;) {
    for (std::size_t j = below[i].size(); j-- > 0;) {
      if (i + 1 < below.size()) below[i][j] = std::min(below[i][j], below[i + 1][j]);
      if (j + 1 < below[i].size()) below[i][j] = std::min(below[i][j], below[i][j + 1]);
    }
  }
  for (std::size_t i = 0; i < above.size(); ++i) {
    for (std::size_t j = 0; j < above[i].size(); ++j) {
      above[i][j] = above[i][j] / 2 + below[i][j] / 2;
    }
  }
  return above;
}

// The knots, and kSteps - 1 values evenly between two neighbours.
std::vector<double> Refine(const std::vector<double>& knots) {
  std::vector<double> fine = {knots.front()};
  for (std::size_t i = 1; i < knots.size(); ++i) {
    const double step = (knots[i] - knots[i - 1]) / kSteps;
    for (std::size_t k = 1; k < kSteps; ++k) {
      fine.push_back(knots[i - 1] + static_cast<double>(k) * step);
    }
    fine.push_back(knots[i]);
  }
  return fine;
}

// Each line of `table`, from its values at `x` to values at `wanted`.
Table Along(const Table& table, const std::vector<double>& x, const std::vector<double>& wanted) {
  Table result;
  for (const std::vector<double>& line : table) {
    // A line may fall a little, where curves of neighbouring lines cross.
    const MonotoneCurve curve(x, Isotonic(line));
    std::vector<double>& values = result.emplace_back();
    for (const double at : wanted) values.push_back(curve.At(at));
  }
  return result;
}

Table Transposed(const Table& table) {
  Table result(table.front().size(), std::vector<double>(table.size()));
  for (std::size_t i = 0; i < table.size(); ++i) {
    for (std::size_t j = 0; j < table[i].size(); ++j) result[j][i] = table[i][j];
  }
  return result;
}

// Where a value lies on an axis: at index + part.
struct Place {
  std::size_t index;
  double part;  // 0 to 1; 0 at the last index
};

Place PlaceOf(const std::vector<double>& axis, double value) {
  if (value <= axis.front()) return {0, 0};
  if (value >= axis.back()) return {axis.size() - 1, 0};
  const auto next = static_cast<std::size_t>(std::ranges::upper_bound(axis, value) - axis.begin());
  return {next - 1, (value - axis[next - 1]) / (axis[next] - axis[next - 1])};
}

}  // namespace

Result<Surface> Surface::FromFormula(const SurfaceFormula& formula) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("base_ms", formula.base_ms, {0, 1e6}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("row_ms", formula.row_ms, {0, 1e6}));
  LAGOON_RETURN_IF_ERROR(
      CheckBounds("the time of one row", formula.base_ms + formula.row_ms, {1e-6, 2e6}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("fixed", formula.fixed, {0, 1}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("knee", formula.knee, {kLeastShare, 1}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("growth", formula.growth, {0, 1}));
  Surface surface;
  surface.formula_ = formula;
  return surface;
}

Result<Surface> Surface::FromPoints(SurfacePoints points) {
  LAGOON_RETURN_IF_ERROR(Check(points));
  std::vector<double> rows(points.rows.begin(), points.rows.end());
  std::vector<double> inverse;  // ascends, as the times do with it
  for (const double share : points.shares) inverse.push_back(1 / share);
  std::ranges::reverse(inverse);
  Table times = points.latency_ms;
  for (std::vector<double>& line : times) std::ranges::reverse(line);

  Surface surface;
  surface.points_ = std::move(points);
  surface.grid_rows_ = Refine(rows);
  surface.grid_inverse_shares_ = Refine(inverse);
  times = Along(Smooth(times), inverse, surface.grid_inverse_shares_);
  times = Transposed(Along(Transposed(times), rows, surface.grid_rows_));
  RaiseToTheLargestBelow(times);  // does not change the points
  for (const std::vector<double>& line : times) {
    surface.grid_ms_.insert(surface.grid_ms_.end(), line.begin(), line.end());
  }
  return surface;
}

double Surface::Interpolate(double rows, double inverse_share) const {
  const Place row = PlaceOf(grid_rows_, rows);
  const Place share = PlaceOf(grid_inverse_shares_, inverse_share);
  const auto at = [&](std::size_t i, std::size_t j) {
    return grid_ms_[std::min(i, grid_rows_.size() - 1) * grid_inverse_shares_.size() +
                    std::min(j, grid_inverse_shares_.size() - 1)];
  };
  const auto along = [&](std::size_t i) {
    return std::lerp(at(i, share.index), at(i, share.index + 1), share.part);
  };
  return std::lerp(along(row.index), along(row.index + 1), row.part);
}

double Surface::LatencyMs(std::int64_t rows, double share) const {
  LAGOON_CHECK(rows >= 1);
  LAGOON_CHECK(share > 0);
  const auto b = static_cast<double>(rows);
  const double p = std::min(share, 1.0);
  if (!formula_) {
    const double beyond_rows = std::max(1.0, b / grid_rows_.back());
    const double beyond_shares = std::max(1.0, points_.shares.front() / p);
    return Interpolate(b, 1 / p) * beyond_rows * beyond_shares;
  }
  const double whole = formula_->base_ms + formula_->row_ms * b;
  const double knee = std::min(1.0, formula_->knee * std::pow(b, formula_->growth));
  return whole * (formula_->fixed + (1 - formula_->fixed) * knee / std::min(p, knee));
}

double Surface::Throughput(std::int64_t rows, double share) const {
  return static_cast<double>(rows) * 1000 / LatencyMs(rows, share);
}

}  // namespace lagoon
