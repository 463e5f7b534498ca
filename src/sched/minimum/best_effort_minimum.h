#pragma once

#include <algorithm>

#include "base/time.h"

namespace lagoon {

/// What real-time work owes to the best-effort work that it keeps waiting
/// (SchedulerConfig::best_effort_minimum): an account of time. While best-effort work waits, a part
/// of the time is added to the account. What best-effort work gets done beside and between
/// real-time jobs is taken off. When the account holds a slice, best-effort work has the device for
/// a slice, and the time of the slice is taken off. So slices take at most that part of the time,
/// and there are none where real-time work leaves as much. Not thread-safe.
class BestEffortMinimum {
 public:
  /// What a real-time job waits for at most. 10 ms is short beside the deadlines of cameras, and
  /// long beside the blocks of kernels (20 to 100 us) and what it costs to bring a model back into
  /// the caches.
  static constexpr Nanoseconds kSlice = std::chrono::milliseconds(10);

  /// `part`: of the time, below 1; 0: nothing is owed.
  explicit BestEffortMinimum(double part = 0) : part_(part) {}

  double part() const { return part_; }
  bool in_slice() const { return in_slice_; }
  /// When the slice ends; kNoDeadline: there is none.
  TimePoint ends() const { return in_slice_ ? since_ + kSlice : kNoDeadline; }

  /// The time is `now`. `waits`: from now on there is best-effort work beside real-time work.
  void Pass(TimePoint now, bool waits) {
    if (waits_) {
      const auto added = std::chrono::duration_cast<Nanoseconds>(part_ * (now - passed_));
      owed_ = std::min(owed_ + added, 2 * kSlice);
    }
    passed_ = now;
    waits_ = waits;
  }
  /// Best-effort work has done what takes `time` alone on the device. Between slices what is done
  /// counts for the future up to one slice.
  void Serve(Nanoseconds time) {
    if (!in_slice_ && owed_ > -kSlice) owed_ = std::max(owed_ - time, -kSlice);
  }

  /// Whether a slice must begin.
  bool Due() const { return !in_slice_ && owed_ >= kSlice; }
  /// In a slice: it begins now, as real-time work had the device until now.
  void Begin(TimePoint now) {
    in_slice_ = true;
    since_ = now;
  }
  void End(TimePoint now) {
    in_slice_ = false;
    owed_ -= now - since_;
  }

 private:
  double part_;
  Nanoseconds owed_{0};
  TimePoint passed_{};  // the last Pass()
  TimePoint since_{};   // when the slice began
  bool waits_ = false;
  bool in_slice_ = false;
};

}  // namespace lagoon
