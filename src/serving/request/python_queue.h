#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "serving/batch/batch_queue.h"
#include "serving/python/job.h"
#include "serving/request/flight.h"

namespace lagoon {

/// The requests of a Python model: those that wait for a program, and those that a program has.
/// Requests of the model's own class go first, then those that have lowered their class; BatchQueue
/// has the rules of batches, whose requests a program gets as a list. Any thread may call any
/// method.
///
/// - A request that is cancelled, or whose deadline passes, is answered at once, also while a
///   program has it.
/// - A full queue answers kUnavailable, but with Overflow::kNewestWins its oldest request is
///   answered as superseded.
class PythonQueue final : public WaitingPlace, public PythonJobs {
 public:
  /// The programs of `model` work for the queue from now on. `model` outlives the queue.
  explicit PythonQueue(ServedModel& model);
  /// Ends the programs. All requests must have been answered.
  ~PythonQueue();
  PythonQueue(const PythonQueue&) = delete;
  PythonQueue& operator=(const PythonQueue&) = delete;

  void Add(const std::shared_ptr<Flight>& flight);
  void Cancel(Flight& flight) override;
  Kind kind() const override { return &RequestWaits::batch; }
  std::vector<std::shared_ptr<PythonJob>> Take(bool wants, TimePoint& next) override;
  std::size_t Waiting() const override;

 private:
  class Job;

  BatchMember MemberOf(const std::shared_ptr<Flight>& flight) const;
  void Answer(const BatchQueue::Expired& expired);
  void WakePrograms();

  ServedModel& model_;
  mutable Mutex mutex_;
  BatchQueue queue_ GUARDED_BY(mutex_);
  std::map<const Flight*, std::shared_ptr<Job>> running_ GUARDED_BY(mutex_);
};

}  // namespace lagoon
