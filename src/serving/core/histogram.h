#pragma once

// How long the stages of requests took, as counts by duration.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace lagoon {

/// The longest duration that each bucket but the last one counts, in microseconds: 1, 2, 5 per
/// decade from 50 us to 10 s. The same for all models and stages, so that sums over models make
/// sense. The last bucket counts what is longer.
inline constexpr std::array<std::uint32_t, 17> kHistogramBoundsUs = {
    50,     100,     200,     500,     1'000,     2'000,     5'000,     10'000,    20'000,
    50'000, 100'000, 200'000, 500'000, 1'000'000, 2'000'000, 5'000'000, 10'000'000};

struct StageHistogram {
  std::array<std::uint64_t, kHistogramBoundsUs.size() + 1> counts{};  // one per bucket
  std::uint64_t ns = 0;                                               // the sum of the durations

  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t one : counts) sum += one;
    return sum;
  }
  void Add(const StageHistogram& more) {
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += more.counts[i];
    ns += more.ns;
  }
};

/// The stages of the requests of one class of a model, with the definitions of StatisticsRecorder:
/// `queue` counts for every outcome, the others for requests that succeeded.
struct StageHistograms {
  StageHistogram request, queue, compute_input, compute_infer, compute_output;

  static constexpr StageHistogram StageHistograms::*kAll[] = {
      &StageHistograms::request, &StageHistograms::queue, &StageHistograms::compute_input,
      &StageHistograms::compute_infer, &StageHistograms::compute_output};
};

/// Any thread may call any method. Recording is two relaxed additions.
class HistogramRecorder {
 public:
  void Add(Nanoseconds duration) {
    const auto ns = static_cast<std::uint64_t>(std::max(duration, Nanoseconds(0)).count());
    const auto bucket = std::ranges::lower_bound(
        kHistogramBoundsUs, ns, {}, [](std::uint64_t bound_us) { return bound_us * 1000; });
    const auto index = static_cast<std::size_t>(bucket - kHistogramBoundsUs.begin());
    counts_[index].fetch_add(1, std::memory_order_relaxed);
    ns_.fetch_add(ns, std::memory_order_relaxed);
  }
  StageHistogram Read() const {
    StageHistogram read;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      read.counts[i] = counts_[i].load(std::memory_order_relaxed);
    }
    read.ns = ns_.load(std::memory_order_relaxed);
    return read;
  }

 private:
  std::array<std::atomic<std::uint64_t>, kHistogramBoundsUs.size() + 1> counts_{};
  std::atomic<std::uint64_t> ns_{0};
};

}  // namespace lagoon
