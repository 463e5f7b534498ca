// How a job comes in: on the thread that posts it, without a lock.

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "sched/dispatcher.h"

namespace lagoon {
namespace {

// Whether the job fits the plan of its queue.
Status Check(const JobSpec& spec, const QueueOptions& options) {
  const Instance& instance = spec.instance != nullptr ? *spec.instance : *options.instances.front();
  const LoadedPlan& loaded = instance.loaded();
  const Plan& plan = loaded.plan;
  if (spec.inputs.size() != plan.inputs.size() || spec.outputs.size() != plan.outputs.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("queue '{}': the plan has {} inputs and {} outputs, the job {} and {}",
                            options.name, plan.inputs.size(), plan.outputs.size(),
                            spec.inputs.size(), spec.outputs.size()));
  }
  if (spec.size >= loaded.sizes()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("queue '{}': the job is of batch size {}, there are {}", options.name,
                            spec.size, loaded.sizes()));
  }
  if ((spec.instance == nullptr) != (spec.costs == nullptr)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("queue '{}': a job has an instance of its own with the costs of that, "
                            "or neither",
                            options.name));
  }
  return {};
}

// Counts a job that will wait for an instance, if there is room for one more.
Status TakePlace(JobQueue& queue) {
  const QueueOptions& options = queue.options;
  const bool newest_wins = options.overflow == Overflow::kNewestWins;
  const std::size_t most = options.max_pending + (newest_wins ? Dispatcher::kMaxUnadmitted : 0);
  const std::size_t waiting = queue.pending.fetch_add(1, std::memory_order_relaxed);
  if (waiting < most) return {};
  queue.pending.fetch_sub(1, std::memory_order_relaxed);
  if (!newest_wins) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("queue '{}' is full: {} requests are waiting", options.name, waiting));
  }
  return Fail(ErrorCode::kUnavailable,
              fmt::format("queue '{}' is full: {} requests came before the dispatcher could drop "
                          "all but the newest {}; try again",
                          options.name, waiting, options.max_pending));
}

std::unique_ptr<Job> MakeJob(const JobSpec& spec, JobQueue& queue, JobId id, TimePoint posted) {
  auto job = std::make_unique<Job>();
  job->id = id;
  job->queue_id = spec.queue;
  job->job_class = queue.options.job_class;
  job->arrival = posted;
  job->deadline = spec.deadline;
  job->queue = &queue;
  job->client = spec.client;
  job->inputs.assign(spec.inputs.begin(), spec.inputs.end());
  job->outputs.assign(spec.outputs.begin(), spec.outputs.end());
  job->size = spec.size;
  job->instance = spec.instance;
  job->costs = spec.costs != nullptr ? spec.costs : &queue.costs[spec.size];
  job->result.posted = posted;
  return job;
}

}  // namespace

Result<JobId> Dispatcher::Post(const JobSpec& spec) {
  const TimePoint posted = device_.Now();
  JobQueue* queue = queues_.Find(spec.queue);
  if (queue == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("there is no queue {}", Raw(spec.queue)));
  }
  LAGOON_RETURN_IF_ERROR(Check(spec, queue->options));
  LAGOON_RETURN_IF_ERROR(TakePlace(*queue));
  const JobId id{next_id_.fetch_add(1, std::memory_order_relaxed)};
  const TimePoint deadline = spec.deadline;  // the client may free the spec once the job is pushed
  Push(MakeJob(spec, *queue, id, posted));
  Step();
  if (deadline != kNoDeadline) WakeTimerFor(deadline);
  return id;
}

void Dispatcher::Push(std::unique_ptr<Job> owned) {
  Job* const job = owned.release();  // owned by the inbox, then by the mechanism
  unfinished_.fetch_add(1);
  job->next_in_inbox = inbox_.load(std::memory_order_relaxed);
  // release: the thread that drains the stack sees the job's fields.
  while (!inbox_.compare_exchange_weak(job->next_in_inbox, job, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

}  // namespace lagoon
