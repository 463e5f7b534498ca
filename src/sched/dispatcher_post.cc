// How a job comes in: on the thread that posts it, without a lock.

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/check.h"
#include "sched/dispatcher.h"

namespace lagoon {
namespace {

// Whether the job names what it runs in one of three ways: an instance of its own, a plan of its
// queue, or nothing where the queue has a first plan.
Status CheckPlan(const JobSpec& spec, const JobQueue& queue) {
  const std::string& name = queue.options.name;
  if ((spec.instance == nullptr) != (spec.costs == nullptr)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("queue '{}': a job has an instance of its own with the costs of that, "
                            "or neither",
                            name));
  }
  if (spec.plan != nullptr && spec.instance != nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("queue '{}': the job has an instance of its own and a plan of the "
                            "queue; set one of the two",
                            name));
  }
  if (spec.plan != nullptr && spec.plan->queue() != queue.id) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("queue '{}' has number {}, the job's plan is of queue {}", name,
                            Raw(queue.id), Raw(spec.plan->queue())));
  }
  if (spec.plan == nullptr && spec.instance == nullptr && queue.first == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("queue '{}': its instances were created without a plan, so that the "
                            "job must name one",
                            name));
  }
  return {};
}

// Whether the parts have as many bytes as the plan's tensors.
Status CheckParts(const JobParts& parts, const Plan& plan, const JobQueue& queue) {
  const auto check = [&](const auto& of_tensors, const std::vector<PlanTensor>& tensors) -> Status {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::size_t bytes = 0;
      if (i < of_tensors.size()) {
        for (const HostPart& part : of_tensors[i]) bytes += part.bytes;
      }
      if (bytes == tensors[i].spec.bytes()) continue;
      return Fail(
          ErrorCode::kInvalidArgument,
          fmt::format("queue '{}': tensor '{}' has {} bytes, the job's parts have {}",
                      queue.options.name, tensors[i].spec.name, tensors[i].spec.bytes(), bytes));
    }
    return {};
  };
  LAGOON_RETURN_IF_ERROR(check(parts.inputs, plan.inputs));
  return check(parts.outputs, plan.outputs);
}

Status Check(const JobSpec& spec, const JobQueue& queue) {
  LAGOON_RETURN_IF_ERROR(CheckPlan(spec, queue));
  LAGOON_CHECK(spec.ahead >= Nanoseconds(0) && spec.tenant <= kMaxTenants);
  const Plan& plan = spec.instance != nullptr ? spec.instance->plan()
                     : spec.plan != nullptr   ? spec.plan->plan()
                                              : queue.first->plan();
  if (spec.inputs.size() == plan.inputs.size() && spec.outputs.size() == plan.outputs.size()) {
    return spec.parts == nullptr ? Status{} : CheckParts(*spec.parts, plan, queue);
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("queue '{}': the plan has {} inputs and {} outputs, the job {} and {}",
                          queue.options.name, plan.inputs.size(), plan.outputs.size(),
                          spec.inputs.size(), spec.outputs.size()));
}

// Most jobs of the queue that may be posted and not started.
std::size_t MostPending(const QueueOptions& options) {
  const bool newest_wins = options.overflow == Overflow::kNewestWins;
  return options.max_pending + (newest_wins ? Dispatcher::kMaxUnadmitted : 0);
}

// Counts a job that will wait for an instance, if there is room for one more.
bool TakePlace(JobQueue& queue) {
  const std::size_t waiting = queue.pending.fetch_add(1, std::memory_order_relaxed);
  if (waiting < MostPending(queue.options)) return true;
  queue.pending.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

Error IsFull(const QueueOptions& options) {
  if (options.overflow != Overflow::kNewestWins) {
    return {ErrorCode::kUnavailable, fmt::format("queue '{}' is full: {} requests are waiting",
                                                 options.name, MostPending(options))};
  }
  return {ErrorCode::kUnavailable,
          fmt::format("queue '{}' is full: {} requests came before the dispatcher could drop "
                      "all but the newest {}; try again",
                      options.name, MostPending(options), options.max_pending)};
}

// What remains of a job from run to run, without the vectors.
void CopySpec(const Job& from, Job& to) {
  to.queue_id = from.queue_id;
  to.tenant = from.tenant;
  to.job_class = from.job_class;
  to.queue = from.queue;
  to.client = from.client;
  to.callers = from.callers;
  to.help = from.help;
  to.cancelled = from.cancelled;
  to.parts = from.parts;
  to.continues = from.continues;
  to.continued = from.continued;
  to.ahead = from.ahead;
  to.plan = from.plan;
  to.costs = from.costs;
  if (from.plan == nullptr) to.instance = from.instance;  // else it is the last run's
}

// Makes a job that has finished as if it had never run.
void Renew(Job& job) {
  Job fresh;
  CopySpec(job, fresh);
  fresh.inputs = std::move(job.inputs);
  fresh.outputs = std::move(job.outputs);
  job = std::move(fresh);
}

// When the job has to end. It may not be posted yet.
void SetEnd(Job& job, TimePoint posted, TimePoint deadline) {
  job.deadline = job.leaves = deadline;
  const Nanoseconds max_wait = job.queue->options.max_wait;
  if (max_wait > Nanoseconds(0) && max_wait < deadline - posted) {
    job.leaves = job.waits_until = posted + max_wait;
  }
}

}  // namespace

Status Dispatcher::Prepare(const JobSpec& spec, Job& job) const {
  JobQueue* const queue = queues_.Find(spec.queue);
  if (queue == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("there is no queue {}", Raw(spec.queue)));
  }
  LAGOON_RETURN_IF_ERROR(Check(spec, *queue));
  job.queue_id = spec.queue;
  job.tenant = spec.tenant;
  job.job_class = queue->options.job_class;
  job.queue = queue;
  job.client = spec.client;
  job.help.level = job.job_class == JobClass::kRealTime ? 0 : 1;
  job.inputs.assign(spec.inputs.begin(), spec.inputs.end());
  job.outputs.assign(spec.outputs.begin(), spec.outputs.end());
  job.parts = spec.parts;
  job.continues = spec.continues;
  job.continued = spec.continued;
  job.ahead = spec.ahead;
  job.instance = spec.instance;
  job.plan = nullptr;
  if (spec.instance == nullptr) {
    job.plan = spec.plan != nullptr ? spec.plan : queue->first.get();
  }
  job.costs = spec.instance != nullptr ? spec.costs : &job.plan->costs();
  return {};
}

Result<JobId> Dispatcher::Post(const JobSpec& spec) {
  const TimePoint posted = device_.Now();
  // Before a place is taken: where memory runs out here, no place is lost.
  auto job = std::make_unique<Job>();
  LAGOON_RETURN_IF_ERROR(Prepare(spec, *job));
  const JobId id = NextId();
  if (!TakePlace(*job->queue)) return tl::unexpected<Error>(IsFull(job->queue->options));
  SetEnd(*job, posted, spec.deadline);
  const TimePoint leaves = job->leaves;  // the job may be over once it is pushed
  Push(*job.release(), id, posted);
  Step();
  if (leaves != kNoDeadline) WakeTimerFor(leaves);
  return id;
}

bool Dispatcher::Post(Job& job, JobId id, TimePoint deadline, bool caller_waits) {
  const TimePoint posted = device_.Now();
  if (!TakePlace(*job.queue)) return false;
  Renew(job);
  SetEnd(job, posted, deadline);
  const TimePoint leaves = job.leaves;
  Push(job, id, posted);
  Step();
  const bool callers_turn = caller_waits && leaves == deadline;
  if (leaves != kNoDeadline && !callers_turn) WakeTimerFor(leaves);
  return true;
}

Error Dispatcher::FullError(QueueId id) const {
  const JobQueue* const queue = queues_.Find(id);
  LAGOON_CHECK(queue != nullptr);
  return IsFull(queue->options);
}

Nanoseconds Dispatcher::ExpectedTime(const JobSpec& spec) const {
  if (spec.costs != nullptr) return spec.costs->total();
  if (spec.plan != nullptr) return spec.plan->costs().total();
  const JobQueue* const queue = queues_.Find(spec.queue);
  const bool first = queue != nullptr && queue->first != nullptr;
  return first ? queue->first->costs().total() : Nanoseconds(0);
}

void Dispatcher::Push(Job& job, JobId id, TimePoint posted) {
  job.id = id;
  job.arrival = job.result.posted = posted;
  unfinished_.fetch_add(1);
  job.next_in_inbox = inbox_.load(std::memory_order_relaxed);
  // release: the thread that drains the stack sees the job's fields.
  while (!inbox_.compare_exchange_weak(job.next_in_inbox, &job, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

}  // namespace lagoon
