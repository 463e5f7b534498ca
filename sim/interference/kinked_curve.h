#pragma once

#include <cstddef>
#include <vector>

namespace lagoon {

/// A curve through points that may bend sharply between two of them: a share above a model's knee
/// gains nothing, and few rows take as long as one (InSS Fig. 6). A smooth curve rounds such a kink
/// off. Between two points,
/// - a convex function lies below the chord, and above the lines through the two points before and
///   the two points after. The value is at three quarters of the way from the chord to those lines:
///   a whole one finds a sharp kink, a half one is never far off. Before the first point the line
///   is flat; after the last one it goes through 0.
/// - a concave function lies on the other side of the chord
/// - else, the value is on the chord. So it is before the last point, if the function has bent
///   before: there is one knee.
class KinkedCurve {
 public:
  /// `x`: above 0, ascends strictly. `y`: above 0, does not fall. Finite, of equal size, not empty.
  KinkedCurve(std::vector<double> x, std::vector<double> y);
  /// Does not fall as `x` grows. Outside of the points: the value at the nearest point.
  double At(double x) const;

 private:
  double Slope(std::size_t piece) const;

  std::vector<double> x_, y_;
};

}  // namespace lagoon
