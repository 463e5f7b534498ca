#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "cluster/interference/latency_model.h"

namespace lagoon {

/// How long batches of a model take, learned from those that it serves, whatever ran beside them:
///   t = c0 + c1 rows + c2 / share + c3 rows / share, in ms, with coefficients of 0 or more.
/// Recursive least squares of relative errors. Where nothing was measured the time goes with
/// rows / share. Not thread-safe.
class LearnedLatency {
 public:
  /// So many batches are needed before they say more than what is expected.
  static constexpr int kLeast = 5;

  /// What a row takes on the whole device; 1 before the first call. Values that are no time of a
  /// row (NaN, 0 or less) change nothing.
  void Expect(double row_ms);
  /// Batches of `rows` rows, 1 or more, took `ms`, above 0, on `share` of the device, above 0 and
  /// at most 1. False: a value is not in its range, and nothing was learned.
  bool Observe(double rows, double share, double ms);

  /// Whether Model() has measured times, and not only what is expected.
  bool learned() const { return observed_ >= kLeast; }

  /// Times of batches of up to `most_rows` rows, 1 to 1024. A new object only where a time has
  /// changed by more than 3 %, as placers keep what they computed about a model.
  std::shared_ptr<const LatencyModel> Model(std::int64_t most_rows);

 private:
  std::array<double, 4> Solve() const;

  double row_ms_ = 1;
  int observed_ = 0;                    // at most kLeast
  std::array<double, 16> products_{};   // sums over batches: of the terms over the time, squared
  std::array<double, 4> sums_{};        // of the terms over the time
  double weight_ = 0, log_of_row_ = 0;  // sums: of batches, and of log(time share / rows)
  std::int64_t most_rows_ = 0;          // of model_
  std::shared_ptr<const LatencyModel> model_;
};

}  // namespace lagoon
