#include "cluster/monitor.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace lagoon {
namespace {

constexpr double kStep = 1.05;

Nanoseconds AtLeastZero(Nanoseconds time) { return std::max(time, Nanoseconds(0)); }

}  // namespace

void LoadMonitor::Histogram::Add(Nanoseconds time) {
  const double us = std::max(1.0, ToMicroseconds(time));
  const auto index = static_cast<std::size_t>(std::log(us) / std::log(kStep));
  ++counts_[std::min(index, counts_.size() - 1)];
  ++sum_;
}

std::optional<double> LoadMonitor::Histogram::PercentileMs(double part) const {
  if (sum_ == 0) return std::nullopt;
  const auto wanted = static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(sum_)));
  std::uint64_t below = 0;
  std::size_t index = 0;
  while (below + counts_[index] < wanted) below += counts_[index++];
  return std::pow(kStep, static_cast<double>(index) + 0.5) / 1000;  // the middle of the step
}

LoadMonitor::LoadMonitor(Nanoseconds window) : window_(window) {
  LAGOON_CHECK(window >= std::chrono::milliseconds(1));
}

void LoadMonitor::Arrived(std::int64_t rows, TimePoint now) {
  LAGOON_CHECK(rows >= 1);
  Advance(now);
  arrived_rows_ += static_cast<double>(rows);
}

void LoadMonitor::Ended(const BatchTimes& batch, TimePoint now) {
  LAGOON_CHECK(batch.rows >= 1);
  Advance(now);
  host_ += AtLeastZero(batch.host);
  device_ += AtLeastZero(batch.device);
  ++batches_;
  batch_ms_.Add(ToMilliseconds(AtLeastZero(batch.took)));
  batch_rows_.Add(static_cast<double>(batch.rows));
}

void LoadMonitor::Answered(Nanoseconds took, TimePoint now) {
  Advance(now);
  answers_.Add(took);
}

void LoadMonitor::Moved() {
  batch_ms_.Reset();
  batch_rows_.Reset();
  request_p95_ms_.Reset();
  answers_.Clear();
}

void LoadMonitor::CloseWindow() {
  const double seconds = std::chrono::duration<double>(window_).count();
  arrivals_per_s_.Add(arrived_rows_ / seconds);
  if (const auto p95 = answers_.PercentileMs(0.95)) request_p95_ms_.Add(*p95);
  bottleneck_ = batches_ == 0     ? Bottleneck::kNone
                : host_ > device_ ? Bottleneck::kHost
                                  : Bottleneck::kDevice;
  arrived_rows_ = 0;
  host_ = device_ = Nanoseconds(0);
  batches_ = 0;
  answers_.Clear();
}

// Ends the windows that end by `now`.
void LoadMonitor::Advance(TimePoint now) {
  if (!begin_) begin_ = now;
  if (now - *begin_ < window_) return;
  // After so many windows without arrivals, the average is 0 for every purpose.
  constexpr std::int64_t kMostWindows = 100;
  const std::int64_t windows = (now - *begin_) / window_;
  for (std::int64_t i = 0; i < std::min(windows, kMostWindows); ++i) CloseWindow();
  *begin_ += windows * window_;
}

LoadReading LoadMonitor::Read(TimePoint now) {
  Advance(now);
  LoadReading reading;
  reading.arrivals_per_s = arrivals_per_s_.value();
  reading.batch_ms = batch_ms_.value();
  reading.request_p95_ms = request_p95_ms_.value();
  if (batch_ms_.value().value_or(0) > 0) {
    reading.rows_per_s = *batch_rows_.value() * 1000 / *batch_ms_.value();
  }
  reading.bottleneck = bottleneck_;
  return reading;
}

}  // namespace lagoon
