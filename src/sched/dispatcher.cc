#include "sched/dispatcher.h"

#include <fmt/format.h>

#include <algorithm>

namespace lagoon {

Dispatcher::Dispatcher(Device& device, const SchedulerConfig& config,
                       std::unique_ptr<Policy> policy, SchedObserver* observer,
                       std::function<void()> on_lost)
    : device_(device),
      policy_(std::move(policy)),
      mechanism_(device_, config, *policy_, queues_),
      on_lost_(std::move(on_lost)) {
  {
    const MutexLock lock(mutex_);
    mechanism_.Observe(observer);
  }
  device_.SetListener(this);
  if (device_.info().virtual_time) return;  // every advance of its time is news
  timer_ = std::jthread([this](const std::stop_token& stop) { SleepUntilDeadlines(stop); });
}

Dispatcher::~Dispatcher() {
  {
    const MutexLock lock(mutex_);
    ending_ = true;
  }
  Step();
  for (std::uint64_t left; (left = unfinished_.load()) != 0;) unfinished_.wait(left);
  device_.SetListener(nullptr);
  timer_.request_stop();
  if (timer_.joinable()) timer_.join();
  while (stepping_.load() != 0) std::this_thread::yield();  // a few instructions from its end
}

Result<QueueId> Dispatcher::AddQueue(QueueOptions options) {
  const MutexLock lock(mutex_);
  return mechanism_.AddQueue(std::move(options));
}

SchedulerConfig Dispatcher::config() const {
  const MutexLock lock(mutex_);
  return mechanism_.config();
}

void Dispatcher::Switch(const SchedulerConfig& config, std::unique_ptr<Policy> policy,
                        std::function<void(Status)> done) {
  auto change = std::make_unique<Change>(Change{config, std::move(policy), std::move(done), {}});
  {
    const MutexLock lock(mutex_);
    if (change_ == nullptr) change_.swap(change);
  }
  if (change == nullptr) return Step();
  change->done(Fail(ErrorCode::kUnavailable,
                    fmt::format("cannot switch to scheduler '{}': another switch is under way, try "
                                "again when it is through",
                                config.name)));
}

Result<JobId> Dispatcher::Post(const JobSpec& spec) {
  const TimePoint posted = device_.Now();
  JobQueue* queue = queues_.Find(spec.queue);
  if (queue == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("there is no queue {}", Raw(spec.queue)));
  }
  const QueueOptions& options = queue->options;
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
  const std::size_t waiting = queue->pending.fetch_add(1, std::memory_order_relaxed);
  if (waiting >= options.max_pending && options.overflow == Overflow::kReject) {
    queue->pending.fetch_sub(1, std::memory_order_relaxed);
    return Fail(ErrorCode::kUnavailable,
                fmt::format("queue '{}' is full: {} requests are waiting", options.name, waiting));
  }

  auto* job = new Job;  // owned by the inbox, then by the mechanism
  const JobId id{next_id_.fetch_add(1, std::memory_order_relaxed)};
  job->id = id;
  job->queue_id = spec.queue;
  job->job_class = options.job_class;
  job->arrival = posted;
  job->deadline = spec.deadline;
  job->queue = queue;
  job->client = spec.client;
  job->inputs.assign(spec.inputs.begin(), spec.inputs.end());
  job->outputs.assign(spec.outputs.begin(), spec.outputs.end());
  job->size = spec.size;
  job->instance = spec.instance;
  job->costs = spec.costs != nullptr ? spec.costs : &queue->costs[spec.size];
  job->result.posted = posted;
  unfinished_.fetch_add(1);
  job->next_in_inbox = inbox_.load(std::memory_order_relaxed);
  // release: whoever drains the stack sees the job.
  while (!inbox_.compare_exchange_weak(job->next_in_inbox, job, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
  const TimePoint deadline = spec.deadline;
  Step();
  if (deadline != kNoDeadline) WakeTimerFor(deadline);
  return id;
}

void Dispatcher::Cancel(JobId job) {
  {
    const MutexLock lock(cancel_mutex_);
    cancels_.push_back(job);
  }
  has_cancels_.store(true);
  Step();
}

std::size_t Dispatcher::Pending(QueueId queue) const {
  const JobQueue* found = queues_.Find(queue);
  return found == nullptr ? 0 : found->pending.load(std::memory_order_relaxed);
}

DispatcherStats Dispatcher::Stats() const {
  const MutexLock lock(mutex_);
  return mechanism_.stats();
}

// Whoever moves news_ from zero works for everybody, until no news came while it worked. Nobody
// waits for anybody: a thread that finds the combiner at work has told it and goes on.
void Dispatcher::Step() {
  stepping_.fetch_add(1);
  if (news_.fetch_add(1, std::memory_order_acq_rel) == 0) {
    FinishedJobs finished;
    Changes changes;
    std::uint32_t seen;
    do {
      seen = news_.load(std::memory_order_acquire);
      Combine(finished, changes);
    } while (news_.fetch_sub(seen, std::memory_order_acq_rel) != seen);
    // Outside of the combining section: Finished may Post.
    Deliver(finished);
    TellLoss();
    for (const auto& change : changes) change->done(*std::move(change->result));
  }
  stepping_.fetch_sub(1);
}

void Dispatcher::Combine(FinishedJobs& finished, Changes& changes) {
  const MutexLock lock(mutex_);
  // Under a change what is posted stays in the inbox until the mechanism is idle.
  const bool holds_back = change_ != nullptr && !ending_;
  if (!holds_back) AdmitPosted(finished);
  if (ending_) mechanism_.CancelAll();
  if (has_cancels_.exchange(holds_back)) {
    const MutexLock cancel_lock(cancel_mutex_);
    for (const JobId id : cancels_) mechanism_.Cancel(id);
    if (!holds_back) cancels_.clear();  // else one may be of a job in the inbox
  }
  mechanism_.Step(finished);
  if (mechanism_.lost()) lost_.store(true, std::memory_order_relaxed);
  if (change_ == nullptr) return;
  if (!ending_ && !mechanism_.idle()) return;
  ChangeScheduler(changes);
  news_.fetch_add(1);  // what was held back: once more, by this thread
}

void Dispatcher::ChangeScheduler(Changes& changes) {
  Change& change = *changes.emplace_back(std::move(change_));
  if (ending_) {
    change.result = Fail(ErrorCode::kUnavailable, "the dispatcher ends");
    return;
  }
  change.result = mechanism_.Use(change.config, *change.policy);
  if (*change.result) std::swap(policy_, change.policy);
}

void Dispatcher::AdmitPosted(FinishedJobs& finished) {
  Job* newest = inbox_.exchange(nullptr, std::memory_order_acquire);
  Job* oldest = nullptr;
  while (newest != nullptr) {  // the stack is newest first: reverse it
    Job* next = newest->next_in_inbox;
    newest->next_in_inbox = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    Job* next = oldest->next_in_inbox;
    mechanism_.Admit(std::unique_ptr<Job>(oldest), finished);
    oldest = next;
  }
}

void Dispatcher::Deliver(FinishedJobs& finished) {
  while (!finished.empty()) {
    const std::unique_ptr<Job> job(&finished.front());
    finished.pop_front();
    job->client->Finished(job->result);
    if (unfinished_.fetch_sub(1) == 1) unfinished_.notify_all();
  }
}

void Dispatcher::TellLoss() {
  if (!lost_.load(std::memory_order_relaxed) || on_lost_ == nullptr) return;
  if (!told_lost_.exchange(true)) on_lost_();
}

void Dispatcher::SleepUntilDeadlines(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(timer_mutex_);
    timer_wake_.NotifyAll();
  });
  while (!stop.stop_requested()) {
    TimePoint next;
    {
      const MutexLock lock(mutex_);
      next = mechanism_.NextDeadline();
    }
    {
      const MutexLock lock(timer_mutex_);
      timer_target_ = std::min(timer_target_, next);
      while (!stop.stop_requested() && device_.Now() < timer_target_) {
        if (timer_target_ == kNoDeadline) {
          timer_wake_.Wait(timer_mutex_);
        } else {
          timer_wake_.WaitUntil(timer_mutex_, timer_target_);
        }
      }
      timer_target_ = kNoDeadline;
    }
    Step();
  }
}

void Dispatcher::WakeTimerFor(TimePoint deadline) {
  const MutexLock lock(timer_mutex_);
  if (deadline >= timer_target_) return;
  timer_target_ = deadline;
  timer_wake_.NotifyOne();
}

}  // namespace lagoon
