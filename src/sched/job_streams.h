#pragma once

#include <string>
#include <vector>

#include "device/device.h"
#include "sched/config.h"
#include "sched/job_queue.h"

namespace lagoon {

/// The device's streams that jobs are submitted to, as SchedulerConfig::streams says.
class JobStreams {
 public:
  explicit JobStreams(Device& device) : device_(device) {}

  /// From now on jobs get streams of this kind. Creates those that are missing, for `queues` too.
  /// On an error the former kind stays in use.
  Status Use(SchedulerConfig::Streams kind, const QueueTable& queues);
  /// Creates the stream of a new queue, where queues have streams of their own. `name`: the
  /// queue's.
  Status AddQueue(JobQueue& queue, const std::string& name);
  /// The stream of the queue's next job.
  StreamId Next(const JobQueue& queue);

 private:
  Device& device_;
  SchedulerConfig::Streams kind_ = SchedulerConfig::Streams::kPooled;
  std::vector<StreamId> shared_;  // kOne uses the first, kPerJob all of them in turn
  std::size_t next_ = 0;
};

}  // namespace lagoon
