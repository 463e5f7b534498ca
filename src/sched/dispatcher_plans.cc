// What changes while jobs run: plans, the share and the weight of a queue, and queues that go.

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

// Prepares the units without the lock of the rounds, because that may take long.
Status Dispatcher::MoveShare(QueueId id, UnitRange units) {
  JobQueue* const queue = queues_.Find(id);
  if (queue == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("there is no queue {}", Raw(id)));
  }
  const std::string where = fmt::format("queue '{}'", queue->options.name);
  const MutexLock moving(queue->move_mutex);  // one move of the queue at a time
  ShareId share;
  {
    const MutexLock lock(mutex_);
    share = queue->share;
  }
  const UnitRange wanted = units.count == 0 ? UnitRange{0, device_.info().units} : units;
  const bool created = share == kAllUnits;
  if (created) {
    if (units.count == 0) return {};
    Result<ShareId> made = device_.CreateShare(queue->options.name, wanted);
    if (!made) return Annotate(where, std::move(made).error());
    share = *made;
  } else if (Status prepared = device_.PrepareUnits(wanted); !prepared) {
    return Annotate(where, std::move(prepared).error());
  }
  const MutexLock lock(mutex_);
  if (!created) {
    Status moved = device_.MoveShare(share, wanted);
    if (!moved) return Annotate(where, std::move(moved).error());
  }
  mechanism_.UseShare(*queue, share, units);
  return {};
}

Status Dispatcher::SetWeight(QueueId id, double weight) {
  JobQueue* const queue = queues_.Find(id);
  if (queue == nullptr || !(weight > 0)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("cannot give queue {} the weight {}: {}", Raw(id), weight,
                            queue == nullptr ? "there is no such queue" : "a weight is above 0"));
  }
  const MutexLock lock(mutex_);
  queue->options.weight = weight;
  return {};
}

Status Dispatcher::RemoveQueue(QueueId id) {
  const MutexLock lock(mutex_);
  return mechanism_.RemoveQueue(id);
}

void Dispatcher::FreeUnused(QueueId id) {
  const JobQueue* const queue = queues_.Find(id);
  if (queue == nullptr) return;
  for (Instance* instance : queue->options.instances) instance->FreeUnused();
}

}  // namespace lagoon
