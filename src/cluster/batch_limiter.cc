#include "cluster/batch_limiter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <deque>
#include <iterator>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/random.h"
#include "base/text.h"
#include "cluster/checks.h"
#include "cluster/ewma.h"

namespace lagoon {
namespace {

constexpr std::int64_t kMostRows = 65536;

double BudgetMs(const BatchLimiter::Options& options) {
  return ToMilliseconds(options.slo) / (options.slo_of == SloOf::kRequest ? 2 : 1);
}

// `rows` may be infinite.
std::int64_t Bounded(double rows, std::int64_t most) {
  return static_cast<std::int64_t>(std::clamp(rows, 1.0, static_cast<double>(most)));
}

/// SLAB: the limit times budget / average time of a batch at this limit. If the time is a line in
/// the rows, 18 batches are enough to settle at a limit of up to 32.
/// - The limit stays while the average is within 10 % below the budget.
/// - A batch smaller than the limit says that requests are few. It counts only if it is over the
///   budget. A batch larger than the limit (formed before a change) does not count.
/// - One slow batch says little on a host that others use too. The average is that of the latest
///   batches by half each, from the fifth batch on the median of five; and a limit is over the
///   budget only if two of its last three batches were.
/// - A limit found to be over the budget is not reached again for a second, and each time that it
///   is found to be so again for twice as long, up to 32 s; or until the average at the present
///   limit falls by 10 % for two batches in a row (the share grew, or a neighbour left). Otherwise
///   rounding up and down would swing between two limits for ever. The paper does not say this.
class Slab final : public BatchLimiter {
  static constexpr std::size_t kMedianOf = 5;
  static constexpr Nanoseconds kShortMemory{1'000'000'000}, kLongMemory{32'000'000'000};

 public:
  explicit Slab(const BatchLimiter::Options& options) : BatchLimiter(options) {}

  void Batch(std::int64_t rows, Nanoseconds took, TimePoint now) override;
  BatchNotice TakeNotice() override;

 private:
  double AverageWith(double took_ms);
  bool MostlyOver() const;
  void Count(bool late);
  void ForgetBad(double latency_ms, TimePoint now);
  void FoundBad(TimePoint now);
  void SetLimit(std::int64_t limit);

  // Of batches at the present limit.
  Ewma latency_ms_{0.5};
  std::deque<double> latest_ms_;  // at most kMedianOf
  double sum_ms_ = 0;             // averages after full batches
  double full_batches_ = 0;
  int faster_ = 0;  // full batches in a row

  std::optional<std::int64_t> bad_;  // the smallest limit found to be over the budget
  TimePoint bad_since_{};
  Nanoseconds memory_ = kShortMemory;  // how long bad_ is kept
  bool returns_ = false;               // bad_ was kept for so long
  int under_ = 0, over_ = 0;           // batches in a row
  BatchNotice notice_ = BatchNotice::kNone;
};

/// Additive increase, multiplicative decrease, as the Clipper paper has it (NSDI 2017, 4.3.1): one
/// row more after each full batch within the budget, 10 % less after each that is not.
class Aimd final : public BatchLimiter {
 public:
  explicit Aimd(const BatchLimiter::Options& options) : BatchLimiter(options) {}

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
  explicit ClipperHead(const BatchLimiter::Options& options)
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

/// Always the same limit, or BatchLimiter::Options::most if that is smaller. The SLO has no effect.
class FixedLimit final : public BatchLimiter {
 public:
  /// `rows`: 1 or more.
  FixedLimit(std::int64_t rows, const BatchLimiter::Options& options);

  void Batch(std::int64_t rows, Nanoseconds took, TimePoint now) override;
};

// ---- Slab

void Slab::Batch(std::int64_t rows, Nanoseconds took, TimePoint now) {
  LAGOON_CHECK(rows >= 1 && took.count() >= 0);
  const double took_ms = ToMilliseconds(took);
  if (rows > limit_) return;
  const bool full = rows == limit_;
  if (!full && took_ms <= budget_ms_) {
    Count(/*late=*/false);
    return;
  }
  const double latency_ms = AverageWith(took_ms);
  Count(latency_ms > slo_ms_);
  if (full) ForgetBad(latency_ms, now);

  constexpr double kDeadBand = 0.10;
  const double headroom = (budget_ms_ - latency_ms) / budget_ms_;
  if (headroom < 0 ? !MostlyOver() : headroom < kDeadBand) return;
  const double fitting = static_cast<double>(limit_) * budget_ms_ / latency_ms;
  if (headroom < 0) {
    FoundBad(now);
    SetLimit(std::clamp(Bounded(std::floor(fitting), most_), std::int64_t{1},
                        std::max(*bad_ - 1, std::int64_t{1})));
  } else if (full) {
    const std::int64_t grown = Bounded(std::ceil(fitting), most_);
    SetLimit(std::max(limit_, bad_ ? std::min(grown, *bad_ - 1) : grown));
  }
}

double Slab::AverageWith(double took_ms) {
  latest_ms_.push_back(took_ms);
  if (latest_ms_.size() > kMedianOf) latest_ms_.pop_front();
  const double average_ms = latency_ms_.Add(took_ms);
  if (latest_ms_.size() < kMedianOf) return average_ms;
  std::vector<double> sorted(latest_ms_.begin(), latest_ms_.end());
  std::ranges::nth_element(sorted, sorted.begin() + kMedianOf / 2);
  return sorted[kMedianOf / 2];
}

// Whether two of the last three batches were over the budget.
bool Slab::MostlyOver() const {
  const auto first = latest_ms_.end() - std::min<std::ptrdiff_t>(std::ssize(latest_ms_), 3);
  return std::count_if(first, latest_ms_.end(), [&](double ms) { return ms > budget_ms_; }) >= 2;
}

// Calls for a full batch.
void Slab::ForgetBad(double latency_ms, TimePoint now) {
  constexpr double kFell = 0.9;
  constexpr int kInARow = 2;
  sum_ms_ += latency_ms;
  ++full_batches_;
  faster_ = latency_ms < kFell * sum_ms_ / full_batches_ ? faster_ + 1 : 0;
  if (!bad_) return;
  if (faster_ >= kInARow) {
    bad_.reset();
    memory_ = kShortMemory;
    returns_ = false;
  } else if (now - bad_since_ > memory_) {
    bad_.reset();
    returns_ = true;
  }
}

void Slab::FoundBad(TimePoint now) {
  if (returns_) memory_ = std::min(2 * memory_, kLongMemory);
  returns_ = false;
  bad_ = std::min(bad_.value_or(limit_), limit_);
  bad_since_ = now;
}

void Slab::SetLimit(std::int64_t limit) {
  if (limit == limit_) return;
  limit_ = limit;
  latency_ms_.Reset();
  latest_ms_.clear();
  sum_ms_ = 0;
  full_batches_ = 0;
  faster_ = 0;
}

void Slab::Count(bool late) {
  constexpr int kInARow = 5;
  over_ = late ? 0 : over_ + 1;
  under_ = late ? under_ + (limit_ == 1 ? 1 : 0) : 0;
  if (over_ < kInARow && under_ < kInARow) return;
  notice_ = late ? BatchNotice::kUnder : BatchNotice::kOver;
  over_ = 0;
  under_ = 0;
}

BatchNotice Slab::TakeNotice() { return std::exchange(notice_, BatchNotice::kNone); }

// ---- Aimd

void Aimd::Batch(std::int64_t rows, Nanoseconds took, TimePoint /*now*/) {
  LAGOON_CHECK(rows >= 1 && took.count() >= 0);
  if (ToMilliseconds(took) > budget_ms_) {
    limit_ = Bounded(std::floor(static_cast<double>(limit_) * 0.9), most_);
  } else if (rows >= limit_) {
    limit_ = std::min(limit_ + 1, most_);
  }
}

// ---- FixedLimit

FixedLimit::FixedLimit(std::int64_t rows, const BatchLimiter::Options& options)
    : BatchLimiter(options) {
  LAGOON_CHECK(rows >= 1);
  limit_ = std::min(rows, most_);
}

void FixedLimit::Batch(std::int64_t rows, Nanoseconds took, TimePoint /*now*/) {
  LAGOON_CHECK(rows >= 1 && took.count() >= 0);
}

// ---- ClipperHead

// Constants of containers.cpp and containers.hpp.
constexpr double kDecay = 0.92;
constexpr double kLeastSamples = 5;
constexpr std::int64_t kAdditiveBelow = 10;
constexpr double kGrowthMean = 0.1, kGrowthDeviation = 0.05;
constexpr double kDeviations = 3;

void ClipperHead::Batch(std::int64_t rows, Nanoseconds took, TimePoint /*now*/) {
  LAGOON_CHECK(rows >= 1 && took.count() >= 0);
  const double took_ms = ToMilliseconds(took);
  Seen& seen = seen_[std::min(rows, kMostRows)];
  ++seen.count;
  const double distance = took_ms - seen.mean_ms;
  seen.mean_ms += distance / seen.count;
  seen.squares += distance * (took_ms - seen.mean_ms);
  longest_ms_ = std::max(longest_ms_, took_ms);
  limit_ = kDecay * budget_ms_ > longest_ms_ ? Explore() : Estimate();
  largest_ = std::max(largest_, limit_);
}

std::int64_t ClipperHead::Explore() {
  const auto seen = seen_.find(largest_);
  if (seen != seen_.end() && seen->second.count < kLeastSamples) return largest_;
  if (largest_ < kAdditiveBelow) return std::min(largest_ + 1, most_);
  const double growth = std::max(0.0, kGrowthMean + kGrowthDeviation * random_.Normal());
  return Bounded(std::floor((1 + growth) * static_cast<double>(largest_)), most_);
}

double ClipperHead::PooledDeviation() const {
  double squares = 0, count = -static_cast<double>(seen_.size());
  for (const auto& [rows, seen] : seen_) {
    if (seen.count < kLeastSamples) continue;
    squares += (seen.count - 1) * seen.squares / seen.count;
    count += seen.count;
  }
  return std::sqrt(squares / std::max(1.0, count));
}

// Least squares of the rows on the latencies.
std::int64_t ClipperHead::Estimate() const {
  const double margin_ms = kDeviations * PooledDeviation();
  const auto sizes = static_cast<double>(seen_.size());
  double mean_rows = 0, mean_ms = 0;
  for (const auto& [rows, seen] : seen_) {
    mean_rows += static_cast<double>(rows) / sizes;
    mean_ms += (seen.mean_ms + margin_ms) / sizes;
  }
  double products = 0, squares = 0;
  for (const auto& [rows, seen] : seen_) {
    const double distance_ms = seen.mean_ms + margin_ms - mean_ms;
    products += distance_ms * (static_cast<double>(rows) - mean_rows);
    squares += distance_ms * distance_ms;
  }
  const double slope = squares > 0 ? products / squares : 0;
  return Bounded(std::floor(mean_rows + slope * (kDecay * budget_ms_ - mean_ms)), most_);
}

// ---- The table

template <typename Limiter>
std::unique_ptr<BatchLimiter> Make(const BatchLimiter::Options& options) {
  return std::make_unique<Limiter>(options);
}

struct LimiterRow {
  std::string_view kind;
  std::unique_ptr<BatchLimiter> (*make)(const BatchLimiter::Options& options);
};

// All limiters but FixedLimit, whose kind has the rows.
constexpr LimiterRow kLimiters[] = {
    {"slab", Make<Slab>},
    {"aimd", Make<Aimd>},
    {"clipper", Make<ClipperHead>},
};

}  // namespace

std::vector<std::string_view> BatchLimiterKinds() {
  std::vector<std::string_view> kinds;
  for (const LimiterRow& row : kLimiters) kinds.push_back(row.kind);
  return kinds;
}

std::string BatchLimiterWords() {
  return fmt::format("{}, fixed:ROWS (1 to {})", fmt::join(BatchLimiterKinds(), ", "), kMostRows);
}

Status CheckBatchLimiter(const BatchLimiter::Options& options) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("the SLO in ms", ToMilliseconds(options.slo), {1e-3, 3.6e6}));
  return CheckBounds("the most rows of a batch", static_cast<double>(options.most),
                     {1, static_cast<double>(kMostRows)});
}

Result<std::unique_ptr<BatchLimiter>> MakeBatchLimiter(std::string_view kind,
                                                       const BatchLimiter::Options& options) {
  LAGOON_RETURN_IF_ERROR(CheckBatchLimiter(options));
  const auto* row = std::ranges::find(kLimiters, kind, &LimiterRow::kind);
  if (row != std::end(kLimiters)) return row->make(options);
  if (const auto rows = FixedRowsOf(kind)) return std::make_unique<FixedLimit>(*rows, options);
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("no batch limiter {}; there are {}", Quoted(kind), BatchLimiterWords()));
}

std::optional<std::int64_t> FixedRowsOf(std::string_view kind) {
  constexpr std::string_view kPrefix = "fixed:";
  if (!kind.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = kind.substr(kPrefix.size());
  std::int64_t rows = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rows);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  if (!whole || rows < 1 || rows > kMostRows) return std::nullopt;
  return rows;
}

BatchLimiter::BatchLimiter(const BatchLimiter::Options& options)
    : slo_ms_(ToMilliseconds(options.slo)), budget_ms_(BudgetMs(options)), most_(options.most) {
  LAGOON_CHECK(CheckBatchLimiter(options).has_value());
}

}  // namespace lagoon
