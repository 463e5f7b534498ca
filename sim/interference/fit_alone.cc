#include "sim/interference/fit_alone.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "cluster/monotone.h"
#include "sim/interference/kinked_curve.h"

namespace lagoon {
namespace {

constexpr std::size_t kMostRows = 64, kMostShares = 256;  // of SurfacePoints
constexpr std::size_t kSteps = 8;                         // of a curve between two measured points

using Lines = std::vector<std::vector<double>>;

// The measured shares, and some beyond them, where the regression continues the times.
std::vector<double> SharesFor(const std::set<double>& measured) {
  std::set<double> shares = measured;
  const double least = *measured.begin(), most = *measured.rbegin();
  for (const double below : {least / 4, least / 2}) shares.insert(std::max(0.001, below));
  shares.insert(most < 1 ? 1.0 : most);
  std::vector<double> kept;
  for (const double share : shares) {
    if (kept.empty() || share - kept.back() >= 1e-6) kept.push_back(share);
  }
  return kept;
}

// `knots`, and kSteps - 1 values evenly between two of them.
std::vector<double> WithValuesBetween(const std::vector<double>& knots) {
  std::vector<double> fine = {knots.front()};
  for (std::size_t i = 1; i < knots.size(); ++i) {
    for (std::size_t k = 1; k < kSteps; ++k) {
      fine.push_back(std::lerp(knots[i - 1], knots[i], static_cast<double>(k) / kSteps));
    }
    fine.push_back(knots[i]);
  }
  return fine;
}

// `lines`: times by number of rows, each over `x`, which ascends as the times do. The first
// `measured` values of x were measured; those beyond were continued, and are kept within what is
// possible: no less than before, and no more than in proportion to x.
Lines BendOverShares(const Lines& lines, const std::vector<double>& x, std::size_t measured,
                     const std::vector<double>& wanted) {
  const auto end = static_cast<std::ptrdiff_t>(measured);
  Lines bent;
  for (const std::vector<double>& times : lines) {
    const std::vector<double> known(times.begin(), times.begin() + end);
    const KinkedCurve curve({x.begin(), x.begin() + end}, Isotonic(known));
    std::vector<double>& line = bent.emplace_back();
    for (const double at : wanted) line.push_back(curve.At(at));
    for (std::size_t j = measured; j < x.size(); ++j) {
      const double before = line.back();
      line.push_back(std::clamp(times[j], before, before * x[j] / x[j - 1]));
    }
  }
  return bent;
}

Lines BendOverRows(const Lines& lines, const std::vector<double>& rows,
                   const std::vector<std::int64_t>& wanted) {
  Lines bent(wanted.size());
  for (std::size_t j = 0; j < lines.front().size(); ++j) {
    std::vector<double> column;
    for (const std::vector<double>& line : lines) column.push_back(line[j]);
    const KinkedCurve curve(rows, Isotonic(column));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      bent[i].push_back(curve.At(static_cast<double>(wanted[i])));
    }
  }
  return bent;
}

// `coarse` with points between. Its shares from `least` on were measured. If a surface has no room
// for so many points, they are close enough: then `coarse`.
SurfacePoints WithKinks(const SurfacePoints& coarse, double least) {
  if (kSteps * coarse.rows.size() > kMostRows || kSteps * coarse.shares.size() > kMostShares) {
    return coarse;
  }
  std::vector<double> x;  // 1 / share, so that it ascends
  Lines lines;
  for (const double share : coarse.shares) x.push_back(1 / share);
  std::ranges::reverse(x);
  for (const std::vector<double>& times : coarse.latency_ms) {
    lines.emplace_back(times.rbegin(), times.rend());
  }
  const auto measured = static_cast<std::size_t>(
      std::ranges::count_if(coarse.shares, [&](double share) { return share >= least; }));
  const auto end = x.begin() + static_cast<std::ptrdiff_t>(measured);
  std::vector<double> wanted = WithValuesBetween({x.begin(), end});
  lines = BendOverShares(lines, x, measured, wanted);

  SurfacePoints fine;
  const std::vector<double> rows(coarse.rows.begin(), coarse.rows.end());
  for (const double at : WithValuesBetween(rows)) {
    const auto whole = static_cast<std::int64_t>(std::lround(at));
    if (fine.rows.empty() || whole > fine.rows.back()) fine.rows.push_back(whole);
  }
  fine.latency_ms = BendOverRows(lines, rows, fine.rows);
  wanted.insert(wanted.end(), end, x.end());
  for (const double at : wanted) fine.shares.push_back(1 / at);
  std::ranges::reverse(fine.shares);
  for (std::vector<double>& line : fine.latency_ms) std::ranges::reverse(line);
  return fine;
}

}  // namespace

Result<Surface> FitAlone(std::span<const TimedPoint> points, AloneKind kind) {
  std::map<std::pair<std::int64_t, double>, std::pair<double, int>> measured;  // sum, count
  std::set<std::int64_t> rows;
  std::set<double> shares;
  for (const TimedPoint& point : points) {
    auto& [sum, count] = measured[{point.rows, point.share}];
    sum += point.latency_ms;
    ++count;
    rows.insert(point.rows);
    shares.insert(point.share);
  }
  if (rows.size() > kMostRows) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("has {} numbers of rows, may have {}", rows.size(), kMostRows));
  }
  SurfacePoints coarse;
  coarse.rows = {rows.begin(), rows.end()};
  coarse.shares = SharesFor(shares);
  for (const std::int64_t b : coarse.rows) {
    std::vector<double>& line = coarse.latency_ms.emplace_back();
    for (const double share : coarse.shares) {
      const auto found = measured.find({b, share});
      line.push_back(found != measured.end() ? found->second.first / found->second.second
                                             : LocalRegression(points, b, share));
    }
  }
  if (kind == AloneKind::kKinked) coarse = WithKinks(coarse, *shares.begin());
  return Surface::FromPoints(std::move(coarse));
}

}  // namespace lagoon
