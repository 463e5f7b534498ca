#pragma once

// What a model's requests and batches say of its load (GSLICE 3.2.1).

#include <array>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "cluster/ewma.h"

namespace lagoon {

/// One batch. Times below 0 count as 0.
struct BatchTimes {
  std::int64_t rows = 1;  // requests' rows, without padding; at least 1
  Nanoseconds took{0};    // of the batch on the device, from its submission on
  Nanoseconds host{0};    // from the first request's release to the first kernel, and from the last
                          // kernel to the last answer
  Nanoseconds device{0};  // from the first kernel to the last
};

/// Where the time of a model's batches went.
enum class Bottleneck : std::uint8_t {
  kNone,    // there were no batches
  kHost,    // a larger share of the device would not help
  kDevice,  // also if both took as long
};

/// Averages are exponentially weighted, with the weight 0.3 of a new value. Empty: not known yet.
struct LoadReading {
  std::optional<double> arrivals_per_s;       // rows, average over the windows that have ended
  std::optional<double> batch_ms;             // time of a batch, average over the batches
  std::optional<double> request_p95_ms;       // within 3 %, average over the windows with answers
  std::optional<double> rows_per_s;           // that the share can do: rows of a batch / its time
  Bottleneck bottleneck = Bottleneck::kNone;  // over the last window
};

/// Not thread-safe. Times do not fall; one that does counts as the latest. The first call of all
/// starts the first window.
class LoadMonitor {
 public:
  /// `window`: at least 1 ms.
  explicit LoadMonitor(Nanoseconds window = std::chrono::seconds(1));

  void Arrived(std::int64_t rows, TimePoint now);
  void Ended(const BatchTimes& batch, TimePoint now);
  /// A request was answered, `took` after its arrival.
  void Answered(Nanoseconds took, TimePoint now);
  /// The share moved: the times of batches and requests so far mean nothing any more.
  void Moved();

  LoadReading Read(TimePoint now);

 private:
  static constexpr double kWeight = 0.3;

  // Counts of times, each at most 5.1 % larger than the one before, from 1 us to 330 s.
  class Histogram {
   public:
    void Add(Nanoseconds time);
    std::optional<double> PercentileMs(double part) const;
    void Clear() { *this = {}; }

   private:
    std::array<std::uint32_t, 400> counts_{};
    std::uint64_t sum_ = 0;
  };

  void Advance(TimePoint now);
  void CloseWindow();

  const Nanoseconds window_;
  std::optional<TimePoint> begin_;  // of the window, as are the sums below
  double arrived_rows_ = 0;
  Nanoseconds host_{0}, device_{0};
  std::uint64_t batches_ = 0;
  Histogram answers_;
  // Averages.
  Ewma arrivals_per_s_{kWeight}, request_p95_ms_{kWeight};
  Ewma batch_ms_{kWeight}, batch_rows_{kWeight};
  Bottleneck bottleneck_ = Bottleneck::kNone;
};

}  // namespace lagoon
