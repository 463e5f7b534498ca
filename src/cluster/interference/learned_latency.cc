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
constexpr double kMostFormulaMs = 1e6;            // of SurfaceFormula
constexpr double kMostScale = 4;                  // by which a stored surface may be off
constexpr double kOfStored = 5;                   // readings that a stored surface counts for
constexpr double kCompanyRidge = 1;               // as one reading at full load
constexpr double kAlone = 0.02;                   // a load below it counts as none
constexpr double kMostLoad = 64;
constexpr double kLeastSlowdown = -0.5, kMostSlowdown = 4;  // what a reading says at most
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

double MsOf(const Coefficients& coefficients, double rows, double share) {
  return Eigen::Map<const Vector4>(coefficients.data()).dot(TermsOf(rows, share));
}

Surface Made(SurfacePoints points) {
  for (std::vector<double>& times : points.latency_ms) {
    for (double& ms : times) ms = std::clamp(ms, kLeastMs, kMostMs);
  }
  Result<Surface> surface = Surface::FromPoints(std::move(points));
  LAGOON_CHECK(surface.has_value());  // all values are in their ranges
  return *std::move(surface);
}

Surface SurfaceOf(const Coefficients& coefficients, std::int64_t most_rows) {
  SurfacePoints points{
      .rows = RowsUpTo(most_rows), .shares = {kShares.begin(), kShares.end()}, .latency_ms = {}};
  for (const std::int64_t rows : points.rows) {
    std::vector<double>& times = points.latency_ms.emplace_back();
    for (const double share : kShares) {
      times.push_back(MsOf(coefficients, static_cast<double>(rows), share));
    }
  }
  return Made(std::move(points));
}

// All times of the surface, times a factor.
Surface Scaled(const Surface& surface, double factor) {
  if (const SurfaceFormula* const formula = surface.formula()) {
    SurfaceFormula scaled = *formula;
    scaled.base_ms = std::min(scaled.base_ms * factor, kMostFormulaMs);
    scaled.row_ms = std::min(scaled.row_ms * factor, kMostFormulaMs);
    Result<Surface> made = Surface::FromFormula(scaled);
    LAGOON_CHECK(made.has_value());
    return *std::move(made);
  }
  SurfacePoints points = *surface.points();
  for (std::vector<double>& times : points.latency_ms) {
    for (double& ms : times) ms *= factor;
  }
  return Made(std::move(points));
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
  if (observed_ < kLeast) coefficients_ = {0, 0, 0, row_ms_};
}

void LearnedLatency::Measured(std::shared_ptr<const Surface> alone) {
  if (alone == stored_ || (alone != nullptr && alone == refuted_)) return;
  stored_ = std::move(alone);
  scale_weight_ = log_of_scale_ = 0;
}

void LearnedLatency::CanServe(double rows_per_s) {
  if (rows_per_s > most_per_s_ && rows_per_s <= kMostMs) most_per_s_ = rows_per_s;
}

double LearnedLatency::LoadAt(double rows_per_s) const {
  if (!(most_per_s_ > 0 && rows_per_s > 0)) return 0;  // no NaN
  return std::min(rows_per_s / most_per_s_, 1.0);
}

bool LearnedLatency::Observe(const ServedBatches& batches) {
  const bool taken = batches.rows >= 1 && batches.rows <= 1e6 && batches.share >= 1e-4 &&
                     batches.share <= 1 && batches.ms >= kLeastMs && batches.ms <= kMostMs &&
                     batches.beside >= 0 && batches.beside <= 1e6;  // no NaN
  if (!taken) return false;
  ServedBatches served = batches;
  served.beside = std::min(served.beside, kMostLoad);
  LearnAlone(served.rows, served.share, served.ms / SlowdownAt(served.beside));
  if (served.beside > kAlone) LearnCompany(served);
  return true;
}

void LearnedLatency::LearnAlone(double rows, double share, double ms) {
  const Vector4 terms = TermsOf(rows, share) / ms;
  Eigen::Map<Matrix4> products(products_.data());
  Eigen::Map<Vector4> sums(sums_.data());
  products = kForgets * products + terms * terms.transpose();
  sums = kForgets * sums + terms;
  weight_ = kForgets * weight_ + 1;
  log_of_row_ = kForgets * log_of_row_ + std::log(ms * share / rows);
  observed_ = std::min(observed_ + 1, kLeast);
  coefficients_ = Solve();
  if (stored_ == nullptr) return;
  log_of_scale_ = kForgets * log_of_scale_ + std::log(ms * Scale() / AloneMs(rows, share));
  scale_weight_ = kForgets * scale_weight_ + 1;
  const bool far_off = std::abs(log_of_scale_) > scale_weight_ * std::log(kMostScale);
  if (scale_weight_ > kLeast && far_off) refuted_ = std::exchange(stored_, nullptr);
}

// Only once the times alone are known; the constant alone where a larger load seems to make batches
// faster.
void LearnedLatency::LearnCompany(const ServedBatches& served) {
  if (company_.size() < kCompany) {
    company_.push_back(served);
  } else {
    company_[std::exchange(next_, (next_ + 1) % kCompany)] = served;
  }
  if (!learned()) return;
  std::vector<SlowdownPoint> points;
  for (const ServedBatches& batches : company_) {
    const double slowdown = batches.ms / AloneMs(batches.rows, batches.share) - 1;
    points.push_back({.slowdown = std::clamp(slowdown, kLeastSlowdown, kMostSlowdown),
                      .load = {.cache = batches.beside}});
  }
  slowdown_ = FitSlowdownNear(points, kExpectedSlowdown, kCompanyRidge);
  if (slowdown_.cache >= 0) return;
  for (SlowdownPoint& point : points) point.load.cache = 0;
  slowdown_ = FitSlowdownNear(points, kExpectedSlowdown, kCompanyRidge);
}

double LearnedLatency::SlowdownAt(double load) const {
  if (load <= kAlone) return 1;
  return std::max(1.0, 1 + slowdown_.constant + slowdown_.cache * load);
}

double LearnedLatency::Scale() const {
  return std::exp(log_of_scale_ / (scale_weight_ + kOfStored));
}

double LearnedLatency::AloneMs(double rows, double share) const {
  if (stored_ == nullptr) return std::max(MsOf(coefficients_, rows, share), kLeastMs);
  const double below = std::floor(rows);
  const auto whole = static_cast<std::int64_t>(below);
  const double least = stored_->LatencyMs(whole, share);
  const double more = rows > below ? stored_->LatencyMs(whole + 1, share) : least;
  return Scale() * (least + (rows - below) * (more - least));
}

double LearnedLatency::ExpectedMs(const ServedBatches& served) const {
  return AloneMs(served.rows, served.share) * SlowdownAt(served.beside);
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

Surface LearnedLatency::AloneSurface(std::int64_t most_rows) const {
  return stored_ == nullptr ? SurfaceOf(coefficients_, most_rows) : Scaled(*stored_, Scale());
}

// Whether what model_ says is still so.
bool LearnedLatency::ModelHolds(std::int64_t most_rows) const {
  if (model_ == nullptr || most_rows != most_rows_) return false;
  const auto alike = [](double now, double before) {
    return std::abs(now - before) <= kSameTime * before;
  };
  for (const std::int64_t rows : {std::int64_t{1}, most_rows}) {
    for (const double share : {kShares.front(), kShares.back()}) {
      const double now = AloneMs(static_cast<double>(rows), share);
      if (!alike(now, model_->AloneMs(rows, share))) return false;
    }
  }
  for (const double load : {2 * kAlone, 1.0}) {
    if (!alike(SlowdownAt(load), model_->Slowdown({.cache = load}, true))) return false;
  }
  return alike(model_->cache().slope * most_per_s_, most_per_s_ > 0 ? 1 : 0);
}

std::shared_ptr<const LatencyModel> LearnedLatency::Model(std::int64_t most_rows) {
  LAGOON_CHECK(most_rows >= 1 && most_rows <= 1024);
  if (ModelHolds(most_rows)) return model_;
  const LoadLine load{.slope = most_per_s_ > 0 ? 1 / most_per_s_ : 0};
  model_ =
      std::make_shared<const LatencyModel>(AloneSurface(most_rows), load, LoadLine(), slowdown_);
  most_rows_ = most_rows;
  return model_;
}

}  // namespace lagoon
