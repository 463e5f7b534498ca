// What changes while jobs run: plans, the share and the weight of a queue, and queues that go.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/check.h"
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
Result<Dispatcher::PreparedMove> Dispatcher::PrepareMove(const QueueMove& move) {
  PreparedMove prepared;
  prepared.queue = queues_.Find(move.queue);
  if (prepared.queue == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("there is no queue {}", Raw(move.queue)));
  }
  const UnitRange all{0, device_.info().units};
  prepared.wanted = move.units.count == 0 ? all : move.units;
  const std::string& name = prepared.queue->options.name;
  {
    const MutexLock lock(mutex_);
    prepared.share = prepared.queue->share;
    prepared.before = RangeOf(*prepared.queue, all.count);
  }
  if (prepared.share != kAllUnits) {
    if (Status ready = device_.PrepareUnits(prepared.wanted); !ready) {
      return Annotate(fmt::format("queue '{}'", name), std::move(ready).error());
    }
    return prepared;
  }
  prepared.created = true;
  if (move.units.count == 0) return prepared;
  Result<ShareId> made = device_.CreateShare(name, prepared.wanted);
  if (!made) return Annotate(fmt::format("queue '{}'", name), std::move(made).error());
  prepared.share = *made;
  return prepared;
}

Status Dispatcher::MoveShares(std::span<const QueueMove> moves) {
  const MutexLock moving(move_mutex_);
  std::vector<PreparedMove> prepared;
  Status status;
  for (const QueueMove& move : moves) {
    Result<PreparedMove> one = PrepareMove(move);
    const auto same = [&](const PreparedMove& other) { return other.queue == one->queue; };
    if (one && std::ranges::any_of(prepared, same)) {
      one = Fail(ErrorCode::kInvalidArgument,
                 fmt::format("queue '{}' comes twice", one->queue->options.name));
    }
    if (!one) {
      status = tl::unexpected(std::move(one).error());
      break;
    }
    prepared.push_back(*one);
  }
  if (status) status = CarryOut(moves, prepared);
  if (!status) {
    // A share that was made for a move that does not take place keeps all units for its queue.
    const MutexLock lock(mutex_);
    for (const PreparedMove& one : prepared) {
      if (one.created && one.share != kAllUnits && one.queue->share == kAllUnits &&
          device_.PrepareUnits(one.before) && device_.MoveShare(one.share, one.before)) {
        mechanism_.UseShare(*one.queue, one.share, {});
      }
    }
    return status;
  }
  Step();  // launches that have retired already bring no news
  return {};
}

Status Dispatcher::CarryOut(std::span<const QueueMove> moves,
                            std::span<const PreparedMove> prepared) {
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    const PreparedMove& one = prepared[i];
    if (one.created) continue;
    Status moved = device_.MoveShare(one.share, one.wanted);
    if (moved) continue;
    while (i-- > 0) {
      // The units that it had are prepared.
      if (!prepared[i].created) {
        LAGOON_CHECK(device_.MoveShare(prepared[i].share, prepared[i].before));
      }
    }
    return Annotate(fmt::format("queue '{}'", one.queue->options.name), std::move(moved).error());
  }
  for (std::size_t i = 0; i < prepared.size(); ++i) {
    if (prepared[i].share == kAllUnits) continue;  // it has all units already
    mechanism_.UseShare(*prepared[i].queue, prepared[i].share, moves[i].units);
  }
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
