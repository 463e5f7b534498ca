#pragma once

// How long one batch of a model takes on a share of a device (GSLICE 2.1.3). Plain data and
// functions; a share is a fraction of the device, above 0 and at most 1.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"

namespace lagoon {

/// t(b, p) = s(b) + w(b) / min(p, kappa(b)), in milliseconds, for b rows on the share p.
/// T(b) = base_ms + row_ms b is the time on the whole device; s(b) = fixed T(b) does not depend on
/// the share. kappa(b) = min(1, knee b^growth): a larger share makes b rows no faster.
struct SurfaceFormula {
  double base_ms = 0;    // 0 to 1e6
  double row_ms = 0;     // for each row, 0 to 1e6; one of both is above 0
  double fixed = 0.3;    // part of the time that no share shortens, 0 to 1
  double knee = 1;       // share from which on one row is no faster, 0.001 to 1
  double growth = 0.25;  // power of the rows with which the knee grows, 0 to 1
};

/// Measured times. Noise may make them fall where they should rise: see Surface::FromPoints.
struct SurfacePoints {
  std::vector<std::int64_t> rows;  // ascending, from 1 to 1e6; at most 64
  std::vector<double> shares;      // ascending by at least 1e-6, from 0.001 to 1; at most 256
  /// [index of rows][index of shares], from 1e-6 to 1e9.
  std::vector<std::vector<double>> latency_ms;
};

/// Times that rise with the rows and fall with the share. Immutable, so that any thread may read.
class Surface {
 public:
  /// kInvalidArgument names the field and its value.
  static Result<Surface> FromFormula(const SurfaceFormula& formula);
  /// Points that contradict (more rows or a smaller share were faster) are smoothed first: each
  /// becomes the mean of the largest one that must not be above it and the smallest one that must
  /// not be below it. kInvalidArgument names the field and its value.
  static Result<Surface> FromPoints(SurfacePoints points);

  /// Milliseconds for a batch of `rows` >= 1 rows on `share` > 0; a share above 1 is the whole
  /// device. From points: Fritsch-Carlson in 1 / share and in rows. Beyond the points:
  /// - fewer rows or a larger share than measured take as long as the nearest point
  /// - more rows or a smaller share take longer in proportion, which is an upper bound in practice
  double LatencyMs(std::int64_t rows, double share) const;
  /// Rows per second of batches of `rows` rows, one after another.
  double Throughput(std::int64_t rows, double share) const;

  /// What the surface was made from. One of both is null.
  const SurfaceFormula* formula() const { return formula_ ? &*formula_ : nullptr; }
  const SurfacePoints* points() const { return formula_ ? nullptr : &points_; }

 private:
  Surface() = default;
  double Interpolate(double rows, double inverse_share) const;

  std::optional<SurfaceFormula> formula_;
  SurfacePoints points_;
  /// The interpolation, on a grid finer than the points: the sum of cubic pieces in two directions
  /// alone is not monotone in both. Between the grid's points it is bilinear.
  std::vector<double> grid_rows_, grid_inverse_shares_;
  std::vector<double> grid_ms_;  // [index of rows * number of shares + index of shares]
};

}  // namespace lagoon
