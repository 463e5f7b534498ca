// Plans that come and go while jobs run.

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "sched/dispatcher.h"

namespace lagoon {

// Does the work without the lock of the rounds: a thread of low priority that held it would hold up
// all jobs. Only an observer makes that lock necessary.
Result<std::unique_ptr<QueuePlan>> Dispatcher::AddPlan(
    QueueId id, const std::shared_ptr<const LoadedPlan>& loaded) {
  JobQueue* const queue = queues_.Find(id);
  if (queue == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("there is no queue {}", Raw(id)));
  }
  const MutexLock adding(queue->add_mutex);
  Result<std::unique_ptr<QueuePlan>> plan =
      QueuePlan::Bind(id, queue->next_plan, queue->options.instances, loaded);
  if (!plan) {
    return Annotate(fmt::format("queue '{}'", queue->options.name), std::move(plan).error());
  }
  ++queue->next_plan;
  if (observed_) {
    const MutexLock lock(mutex_);
    mechanism_.TellPlan(**plan);
  }
  return plan;
}

void Dispatcher::FreeUnused(QueueId id) {
  const JobQueue* const queue = queues_.Find(id);
  if (queue == nullptr) return;
  for (Instance* instance : queue->options.instances) instance->FreeUnused();
}

}  // namespace lagoon
