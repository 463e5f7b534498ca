#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cluster/interference/latency_model.h"
#include "cluster/interference/slowdown.h"

namespace lagoon {

/// Batches that a model served: how large they were, where they ran, and how long they took, in the
/// mean.
struct ServedBatches {
  double rows = 1;    // 1 or more
  double share = 1;   // of the device, above 0, at most 1
  double ms = 0;      // above 0
  double beside = 0;  // sum of LoadAt() of the other models on the device, 0 or more
};

/// How long batches of a model take, learned from those that it serves:
///   t = (c0 + c1 rows + c2 / share + c3 rows / share) (1 + k0 + k1 load), in ms
/// `load` is that of the other models on the device; the last factor is 1 if there is none. The
/// first by recursive least squares of relative errors, with coefficients of 0 or more; where
/// nothing was measured the time goes with rows / share. The second from the last 64 batches that
/// had company, near k0 = 0.03 and k1 = 0. Where the times alone were measured beforehand, they
/// take the place of the first factor, times one number that is learned. Not thread-safe.
class LearnedLatency {
 public:
  /// So many readings are needed before they say more than what is expected.
  static constexpr int kLeast = 5;

  /// What a row takes on the whole device; 1 before the first call. Values that are no time of a
  /// row (NaN, 0 or less) change nothing.
  void Expect(double row_ms);
  /// The times without other models, as `lagoon profile --shares` measures them; null: not known.
  /// Once batches have taken over four times as long, or less than a quarter, they count no more.
  void Measured(std::shared_ptr<const Surface> alone);
  /// The model can serve so many rows a second on what it has now. LoadAt() has the most so far.
  void CanServe(double rows_per_s);
  /// False: a value is not in its range, and nothing was learned. More than 64 models beside
  /// it count as 64.
  bool Observe(const ServedBatches& batches);

  /// Whether Model() has measured times, and not only what is expected.
  bool learned() const { return stored_ != nullptr || observed_ >= kLeast; }
  /// The load of a model that serves so many rows a second: 1 for the most that it can, or more.
  double LoadAt(double rows_per_s) const;
  /// What such batches are expected to take; `ms` is ignored.
  double ExpectedMs(const ServedBatches& served) const;

  /// Times of batches of up to `most_rows` rows, 1 to 1024. A new object only where a time has
  /// changed by more than 3 %, as placers keep what they computed about a model.
  std::shared_ptr<const LatencyModel> Model(std::int64_t most_rows);

 private:
  static constexpr std::size_t kCompany = 64;

  void LearnAlone(double rows, double share, double ms);
  void LearnCompany(const ServedBatches& served);
  std::array<double, 4> Solve() const;
  double Scale() const;
  double AloneMs(double rows, double share) const;
  double SlowdownAt(double load) const;
  Surface AloneSurface(std::int64_t most_rows) const;
  bool ModelHolds(std::int64_t most_rows) const;

  static constexpr SlowdownTerms kExpectedSlowdown{.constant = 0.03};

  double row_ms_ = 1;
  std::shared_ptr<const Surface> stored_, refuted_;  // refuted_: was stored_ once
  int observed_ = 0;                                 // at most kLeast
  std::array<double, 16> products_{};   // sums over batches: of the terms over the time, squared
  std::array<double, 4> sums_{};        // of the terms over the time
  double weight_ = 0, log_of_row_ = 0;  // sums: of batches, and of log(time share / rows)
  std::array<double, 4> coefficients_{0, 0, 0, 1};
  double scale_weight_ = 0, log_of_scale_ = 0;  // sums: of batches, and of log(time / of stored_)
  std::vector<ServedBatches> company_;          // a ring of those with others beside
  std::size_t next_ = 0;                        // in the ring
  SlowdownTerms slowdown_ = kExpectedSlowdown;
  double most_per_s_ = 0;
  std::int64_t most_rows_ = 0;  // of model_
  std::shared_ptr<const LatencyModel> model_;
};

}  // namespace lagoon
