#pragma once

#include "base/mutex.h"
#include "cluster/monitor.h"

namespace lagoon {

/// The load of one version of a model. Any thread.
class LoadRecorder {
 public:
  void Arrived(std::int64_t rows, TimePoint now) {
    const MutexLock lock(mutex_);
    monitor_.Arrived(rows, now);
  }
  /// `batch`: an execution that has ended.
  void Ended(const BatchTimes& batch, TimePoint now) {
    const MutexLock lock(mutex_);
    monitor_.Ended(batch, now);
  }
  void Answered(Nanoseconds took, TimePoint now) {
    const MutexLock lock(mutex_);
    monitor_.Answered(took, now);
  }
  /// The model's share has moved.
  void Moved() {
    const MutexLock lock(mutex_);
    monitor_.Moved();
  }
  LoadReading Read(TimePoint now) {
    const MutexLock lock(mutex_);
    return monitor_.Read(now);
  }

 private:
  Mutex mutex_;
  LoadMonitor monitor_ GUARDED_BY(mutex_);
};

}  // namespace lagoon
