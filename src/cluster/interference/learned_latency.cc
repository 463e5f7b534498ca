#include "cluster/interference/learned_latency.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"

namespace lagoon {
namespace {

constexpr double kForgets = 0.995;    // weight of a batch, once another one was measured
constexpr double kOfExpected = 1e-4;  // weight of a time that is only expected
constexpr double kSameTime = 0.03;    // times that differ by less have one model
constexpr double kLeastMs = 1e-6, kMostMs = 1e9;  // of Surface
constexpr std::array kShares{0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0};

using Matrix4 = Eigen::Matrix4d;
using Vector4 = Eigen::Vector4d;
using Coefficients = std::array<double, 4>;  // c0 to c3

Vector4 TermsOf(double rows, double share) { return {1, rows, 1 / share, rows / share}; }

std::vector<std::int64_t> RowsUpTo(std::int64_t most) {
  std::vector<std::int64_t> rows;
  for (std::int64_t count = 1; count < most; count *= 2) rows.push_back(count);
  rows.push_back(most);
  return rows;
}

double MsOf(const Coefficients& coefficients, std::int64_t rows, double share) {
  return Eigen::Map<const Vector4>(coefficients.data())
      .dot(TermsOf(static_cast<double>(rows), share));
}

Surface SurfaceOf(const Coefficients& coefficients, std::int64_t most_rows) {
  SurfacePoints points{
      .rows = RowsUpTo(most_rows), .shares = {kShares.begin(), kShares.end()}, .latency_ms = {}};
  for (const std::int64_t rows : points.rows) {
    std::vector<double>& times = points.latency_ms.emplace_back();
    for (const double share : kShares) {
      times.push_back(std::clamp(MsOf(coefficients, rows, share), kLeastMs, kMostMs));
    }
  }
  Result<Surface> surface = Surface::FromPoints(std::move(points));
  LAGOON_CHECK(surface.has_value());  // all values are in their ranges
  return *std::move(surface);
}

// The best solution with the coefficients of `mask` alone; empty: one of them is negative.
std::optional<Vector4> SolveFor(const Matrix4& products, const Vector4& sums, unsigned mask) {
  Matrix4 some = Matrix4::Identity();
  Vector4 right = Vector4::Zero();
  for (int i = 0; i < 4; ++i) {
    if ((mask >> i & 1) == 0) continue;
    right[i] = sums[i];
    for (int j = 0; j < 4; ++j) some(i, j) = (mask >> j & 1) != 0 ? products(i, j) : 0;
  }
  const Vector4 found = some.ldlt().solve(right);
  if (!found.allFinite() || found.minCoeff() < 0) return std::nullopt;
  return found;
}

}  // namespace

void LearnedLatency::Expect(double row_ms) {
  if (row_ms > 0 && std::isfinite(row_ms)) row_ms_ = std::clamp(row_ms, kLeastMs, 1e6);
}

bool LearnedLatency::Observe(double rows, double share, double ms) {
  const bool taken = rows >= 1 && rows <= 1e6 && share >= 1e-4 && share <= 1 && ms >= kLeastMs &&
                     ms <= kMostMs;  // no NaN
  if (!taken) return false;
  const Vector4 terms = TermsOf(rows, share) / ms;
  Eigen::Map<Matrix4> products(products_.data());
  Eigen::Map<Vector4> sums(sums_.data());
  products = kForgets * products + terms * terms.transpose();
  sums = kForgets * sums + terms;
  weight_ = kForgets * weight_ + 1;
  log_of_row_ = kForgets * log_of_row_ + std::log(ms * share / rows);
  observed_ = std::min(observed_ + 1, kLeast);
  return true;
}

// Least squares with coefficients of 0 or more: the best of the solutions with some of them.
std::array<double, 4> LearnedLatency::Solve() const {
  if (observed_ < kLeast) return {0, 0, 0, row_ms_};
  const double expected_row_ms = std::exp(log_of_row_ / weight_);
  Matrix4 products = Eigen::Map<const Matrix4>(products_.data());
  Vector4 sums = Eigen::Map<const Vector4>(sums_.data());
  for (const double rows : {1.0, 8.0, 32.0}) {
    for (const double share : {0.1, 0.3, 1.0}) {
      const Vector4 terms = TermsOf(rows, share) * share / (expected_row_ms * rows);
      products += kOfExpected * weight_ * terms * terms.transpose();
      sums += kOfExpected * weight_ * terms;
    }
  }
  Vector4 best{0, 0, 0, expected_row_ms};
  double least = std::numeric_limits<double>::infinity();
  for (unsigned mask = 1; mask < 16; ++mask) {
    const std::optional<Vector4> found = SolveFor(products, sums, mask);
    if (!found) continue;
    const double error = found->dot(products * *found) - 2 * found->dot(sums);
    if (error >= least) continue;
    least = error;
    best = *found;
  }
  return {best[0], best[1], best[2], best[3]};
}

std::shared_ptr<const LatencyModel> LearnedLatency::Model(std::int64_t most_rows) {
  LAGOON_CHECK(most_rows >= 1 && most_rows <= 1024);
  const Coefficients coefficients = Solve();
  bool same = model_ != nullptr && most_rows == most_rows_;
  for (const std::int64_t rows : {std::int64_t{1}, most_rows}) {
    for (const double share : {kShares.front(), kShares.back()}) {
      if (!same) break;
      const double ms = MsOf(coefficients, rows, share);
      const double before = model_->AloneMs(rows, share);
      same = std::abs(ms - before) <= kSameTime * before;
    }
  }
  if (same) return model_;
  model_ = std::make_shared<const LatencyModel>(SurfaceOf(coefficients, most_rows), LoadLine(),
                                                LoadLine(), SlowdownTerms());
  most_rows_ = most_rows;
  return model_;
}

}  // namespace lagoon
