#pragma once

#include <span>
#include <vector>

namespace lagoon {

/// The non-decreasing sequence with the least squared distance from `values` (pool adjacent
/// violators).
std::vector<double> Isotonic(std::span<const double> values);

/// A curve through points that neither falls between points that do not fall nor leaves their
/// range: cubic Hermite pieces with the slopes of Fritsch and Carlson (1980).
class MonotoneCurve {
 public:
  /// `x` ascends strictly, `y` does not fall, both finite, of equal size and not empty.
  MonotoneCurve(std::vector<double> x, std::vector<double> y);

  /// Outside of the points: the value at the nearest point. `x` is not NaN.
  double At(double x) const;

 private:
  std::vector<double> x_, y_, slopes_;
};

}  // namespace lagoon
