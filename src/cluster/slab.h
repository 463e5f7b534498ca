#pragma once

// How many rows a batch may have, so that it ends within its SLO: GSLICE's self-learning batching
// (SLAB, 3.3), and the two rules that it is compared with. Not thread-safe, no clocks.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "base/random.h"
#include "base/status.h"
#include "base/time.h"
#include "cluster/ewma.h"

namespace lagoon {

/// What a batch limiter tells of the model's share.
enum class BatchNotice : std::uint8_t {
  kNone,
  kUnder,  // five batches in a row missed the SLO though the limit is one row: the share is small
  kOver,   // five batches in a row kept the SLO: the share may be large
};

/// What the SLO is about.
enum class SloOf : std::uint8_t {
  kBatch,    // the time of a batch: the budget of a batch is the SLO
  kRequest,  // the time of a request, which waits for a batch and runs in the next: half the SLO
};

struct BatchLimiterOptions {
  Nanoseconds slo{0};  // 1 us to 1 h
  SloOf slo_of = SloOf::kBatch;
  std::int64_t most = 32;  // rows, 1 to 65536
  std::uint32_t seed = 1;  // of ClipperHead's draws
};

class BatchLimiter {
 public:
  /// `options` are valid (CheckBatchLimiter).
  explicit BatchLimiter(const BatchLimiterOptions& options);
  virtual ~BatchLimiter() = default;

  /// A batch of `rows` >= 1 rows took `took` >= 0 and ended at `now`, which does not fall.
  virtual void Batch(std::int64_t rows, Nanoseconds took, TimePoint now) = 0;
  /// Rows that the next batch may have: 1 to BatchLimiterOptions::most. 1 at first.
  std::int64_t Limit() const { return limit_; }
  /// The latest notice since the last call.
  virtual BatchNotice TakeNotice() { return BatchNotice::kNone; }

 protected:
  const double slo_ms_;
  const double budget_ms_;  // of a batch
  const std::int64_t most_;
  std::int64_t limit_ = 1;
};

/// SLAB: the limit times budget / average time of a batch at this limit. If the time is a line in
/// the rows, 17 batches are enough to settle at a limit of up to 32.
/// - The limit stays while the average is within 10 % below the budget.
/// - A batch smaller than the limit says that requests are few. It counts only if it is over the
///   budget. A batch larger than the limit (formed before a change) does not count.
/// - A limit found to be over the budget is not reached again for a second, or until the average at
///   the present limit falls by 10 % (the share grew, or a neighbour left). Otherwise rounding up
///   and down would swing between two limits for ever. The paper does not say this.
class Slab final : public BatchLimiter {
 public:
  explicit Slab(const BatchLimiterOptions& options) : BatchLimiter(options) {}

  void Batch(std::int64_t rows, Nanoseconds took, TimePoint now) override;
  BatchNotice TakeNotice() override;

 private:
  void Count(bool late);
  void ForgetBad(double latency_ms, double took_ms, TimePoint now);
  void SetLimit(std::int64_t limit);

  Ewma latency_ms_{0.5};  // of batches at the present limit
  double sum_ms_ = 0;     // of full batches at the present limit
  double full_batches_ = 0;
  std::optional<std::int64_t> bad_;  // the smallest limit found to be over the budget
  TimePoint bad_since_{};
  int under_ = 0, over_ = 0;  // batches in a row
  BatchNotice notice_ = BatchNotice::kNone;
};

/// Additive increase, multiplicative decrease, as the Clipper paper has it (NSDI 2017, 4.3.1): one
/// row more after each full batch within the budget, 10 % less after each that is not.
class Aimd final : public BatchLimiter {
 public:
  explicit Aimd(const BatchLimiterOptions& options) : BatchLimiter(options) {}

  void Batch(std::int64_t rows, Nanoseconds took, TimePoint now) override;
};

/// What Clipper's published code does (ucbrise/clipper, containers.cpp at d9391ea), which is not
/// what its paper says. As long as no batch took longer than 92 % of the budget, it explores: five
/// batches of the largest size so far, then one row more, from 10 rows on a factor of 1 + N(0.1,
/// 0.05). Afterwards it estimates for ever: rows by linear regression on the latencies' means plus
/// three pooled standard deviations, at 92 % of the budget. So it does not grow again when batches
/// become faster (Fig. 15c of GSLICE). Differs in the regression: plain, where Clipper's is a ridge
/// regression whose weight cross-validation chooses.
class ClipperHead final : public BatchLimiter {
 public:
  explicit ClipperHead(const BatchLimiterOptions& options)
      : BatchLimiter(options), random_(options.seed) {}

  void Batch(std::int64_t rows, Nanoseconds took, TimePoint now) override;

 private:
  struct Seen {
    double count = 0, mean_ms = 0, squares = 0;  // sum of squared distances from the mean
  };
  std::int64_t Explore();
  std::int64_t Estimate() const;
  double PooledDeviation() const;

  Random random_;
  std::map<std::int64_t, Seen> seen_;  // by rows, at most 65536
  std::int64_t largest_ = 1;
  double longest_ms_ = 0;
};

/// Always the same limit, or BatchLimiterOptions::most if that is smaller. The SLO has no effect.
class FixedLimit final : public BatchLimiter {
 public:
  /// `rows`: 1 or more.
  FixedLimit(std::int64_t rows, const BatchLimiterOptions& options);

  void Batch(std::int64_t rows, Nanoseconds took, TimePoint now) override;
};

/// The rows of "fixed:ROWS"; empty: `kind` is not this, or the rows are not from 1 to 65536.
std::optional<std::int64_t> FixedRowsOf(std::string_view kind);

/// kInvalidArgument names the option and its value.
Status CheckBatchLimiter(const BatchLimiterOptions& options);
/// `kind`: "slab", "aimd", "clipper" or "fixed:ROWS". kInvalidArgument: as CheckBatchLimiter, or an
/// unknown kind, with the list.
Result<std::unique_ptr<BatchLimiter>> MakeBatchLimiter(std::string_view kind,
                                                       const BatchLimiterOptions& options);

}  // namespace lagoon
