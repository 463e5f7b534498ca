#include "sim/interference/kinked_curve.h"

#include <algorithm>
#include <utility>

namespace lagoon {
namespace {

constexpr double kTowardsLines = 0.75;
// The slope before the last piece, as a part of the last one's, from which on the knee lies before.
constexpr double kHasBent = 0.1;

}  // namespace

KinkedCurve::KinkedCurve(std::vector<double> x, std::vector<double> y)
    : x_(std::move(x)), y_(std::move(y)) {}

double KinkedCurve::Slope(std::size_t piece) const {
  return (y_[piece + 1] - y_[piece]) / (x_[piece + 1] - x_[piece]);
}

double KinkedCurve::At(double x) const {
  if (x <= x_.front()) return y_.front();
  if (x >= x_.back()) return y_.back();
  const auto next = static_cast<std::size_t>(std::ranges::upper_bound(x_, x) - x_.begin());
  const std::size_t piece = next - 1;
  const bool first = piece == 0, last = next + 1 == x_.size();
  const double own = Slope(piece);
  const double chord = y_[piece] + own * (x - x_[piece]);
  const double before = first ? 0 : Slope(piece - 1);
  if (last && before > kHasBent * own) return chord;
  const double after = last ? std::max(own, y_[next] / x_[next]) : Slope(next);
  const double from_before = y_[piece] + before * (x - x_[piece]);
  const double from_after = y_[next] - after * (x_[next] - x);
  double line = chord;
  if (before <= own && own <= after) line = std::max(from_before, from_after);
  if (!first && !last && before >= own && own >= after) line = std::min(from_before, from_after);
  return chord + kTowardsLines * (line - chord);
}

}  // namespace lagoon
