#pragma once

// How many rows a batch may have, so that it ends within its SLO: GSLICE's self-learning batching
// (SLAB, 3.3), and the two rules that it is compared with. Not thread-safe, no clocks.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

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

class BatchLimiter {
 public:
  struct Options {
    Nanoseconds slo{0};  // 1 us to 1 h
    SloOf slo_of = SloOf::kBatch;
    std::int64_t most = 32;  // rows, 1 to 65536
    std::uint32_t seed = 1;  // of the draws of "clipper"
  };

  /// `options` are valid (CheckBatchLimiter).
  explicit BatchLimiter(const Options& options);
  virtual ~BatchLimiter() = default;

  /// A batch of `rows` >= 1 rows took `took` >= 0 and ended at `now`, which does not fall.
  virtual void Batch(std::int64_t rows, Nanoseconds took, TimePoint now) = 0;
  /// Rows that the next batch may have: 1 to Options::most. 1 at first.
  std::int64_t Limit() const { return limit_; }
  /// The latest notice since the last call.
  virtual BatchNotice TakeNotice() { return BatchNotice::kNone; }

 protected:
  const double slo_ms_;
  const double budget_ms_;  // of a batch
  const std::int64_t most_;
  std::int64_t limit_ = 1;
};

/// The rows of "fixed:ROWS"; empty: `kind` is not this, or the rows are not from 1 to 65536.
std::optional<std::int64_t> FixedRowsOf(std::string_view kind);

/// kInvalidArgument names the option and its value.
Status CheckBatchLimiter(const BatchLimiter::Options& options);
/// The kinds of limiters that learn: the values of lagoon.batching but for "fixed:ROWS" and "off".
std::vector<std::string_view> BatchLimiterKinds();
/// All kinds, for people: "slab, aimd, clipper, fixed:ROWS (1 to 65536)".
std::string BatchLimiterWords();
/// `kind`: one of BatchLimiterKinds(), or "fixed:ROWS": always the same limit, or Options::most if
/// that is smaller. kInvalidArgument: as CheckBatchLimiter, or an unknown kind, with the list.
Result<std::unique_ptr<BatchLimiter>> MakeBatchLimiter(std::string_view kind,
                                                       const BatchLimiter::Options& options);

}  // namespace lagoon
