#include "sched/programs/program_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "sched/programs/program_host_impl.h"

namespace lagoon {
namespace {

// Ids for the jobs of all hosts. Those of dispatchers count from 1, so that the two never meet.
JobId NextId() {
  static std::atomic<std::uint64_t> next{std::uint64_t{1} << 63};
  return JobId{next.fetch_add(1, std::memory_order_relaxed)};
}

}  // namespace

// ---- Any thread

Result<JobId> ProgramHostImpl::Post(const JobSpec& spec) {
  if (spec.inputs.size() != options.inputs.size() ||
      spec.outputs.size() != options.outputs.size() || spec.plan != nullptr) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("job program '{}' has {} inputs and {} outputs and no plans, the job "
                    "{} and {}, and {} plan",
                    options.name, options.inputs.size(), options.outputs.size(), spec.inputs.size(),
                    spec.outputs.size(), spec.plan == nullptr ? "no" : "a"));
  }
  if (given_up_.load() > kMaxGivenUp) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("job program '{}': {} of its coroutines did not come back; restart the "
                            "server",
                            options.name, given_up_.load()));
  }
  const std::size_t waiting = pending_.fetch_add(1);
  if (waiting >= options.max_pending) {
    pending_.fetch_sub(1);
    return Fail(
        ErrorCode::kUnavailable,
        fmt::format("job program '{}' is full: {} requests are waiting", options.name, waiting));
  }
  const JobId id = NextId();
  try {
    auto job = std::make_shared<ProgramRun>(*this, program_, id, spec);
    {
      const MutexLock lock(mutex_);
      cancellable_.insert(id);
    }
    Tell({.kind = ProgramNews::Kind::kArrived, .job = std::move(job)});
  } catch (const std::bad_alloc&) {  // nothing has the job
    pending_.fetch_sub(1);
    const MutexLock lock(mutex_);
    cancellable_.erase(id);
    throw;
  }
  return id;
}

// Only the first cancellation of a job has an effect.
void ProgramHostImpl::Cancel(JobId job) {
  {
    const MutexLock lock(mutex_);
    if (cancellable_.erase(job) == 0) return;
  }
  Tell({.kind = ProgramNews::Kind::kCancelled, .job = {}, .id = job});
}

std::function<void()> ProgramHostImpl::TakenBy(JobId job) {
  return [link = link_, job] {
    const MutexLock lock(link->mutex);
    if (link->host != nullptr) link->host->Taken(job);
  };
}

// Jobs that are answered, or will be because they were cancelled, need no room.
void ProgramHostImpl::Taken(JobId job) {
  {
    const MutexLock lock(mutex_);
    if (!cancellable_.contains(job)) return;
  }
  Tell({.kind = ProgramNews::Kind::kTaken, .job = {}, .id = job});
}

// Called when a job is about to be answered.
void ProgramHostImpl::Forget(const ProgramRun& job) {
  const MutexLock lock(mutex_);
  cancellable_.erase(job.id());
}

void ProgramHostImpl::Tell(ProgramNews news) {
  {
    const MutexLock lock(mutex_);
    LAGOON_CHECK(news_.size() < MostNews());
    news_.push_back(std::move(news));
    if (!options.on_callers_thread) return wake_.NotifyAll();
  }
  if (std::exchange(handling_, true)) return;             // handled further up this thread's stack
  while (TakeNews()) LAGOON_CHECK(HandleAll(*current_));  // a caller's thread is never given up
  handling_ = false;
}

// ---- The thread that owns the state

void ProgramHostImpl::StartThread() {
  thread_ = std::thread([this, thread = current_] { Loop(*thread); });
}

void ProgramHostImpl::Loop(ProgramThread& thread) {
  NameThisThread("lagoon-program");
  do {
    const bool ending = WaitForNews();
    if (!HandleAll(thread)) return;  // given up: the state belongs to another thread
    if (ending) CancelAll();
  } while (!cancelled_ || !jobs_.empty());
  const MutexLock lock(mutex_);
  ended_ = true;
  wake_.NotifyAll();
}

// Returns true if the host is being destroyed.
bool ProgramHostImpl::WaitForNews() {
  TimePoint until = kNoDeadline;
  for (const auto& job : waiting_) until = std::min(until, job->deadline());
  const Nanoseconds max_unread = MaxUnread();
  for (const auto& [id, job] : jobs_) {
    if (job->idle()) until = std::min(until, job->GivesUp(max_unread));
  }
  const MutexLock lock(mutex_);
  while (news_.empty() && todo_.empty() && device->Now() < until && (!ending_ || cancelled_)) {
    if (until == kNoDeadline) {
      wake_.Wait(mutex_);
    } else {
      wake_.WaitUntil(mutex_, until);
    }
  }
  return ending_;
}

bool ProgramHostImpl::TakeNews() {
  const MutexLock lock(mutex_);
  std::ranges::move(news_, std::back_inserter(todo_));
  news_.clear();
  return !todo_.empty();
}

bool ProgramHostImpl::HandleAll(ProgramThread& thread) {
  TakeNews();
  while (!todo_.empty()) {
    const ProgramNews news = std::move(todo_.front());
    todo_.pop_front();
    if (!Handle(news, thread) || !ResumeSignalled(thread)) return false;
  }
  ExpireWaiting();
  ExpireIdle();
  while (ResumeSignalled(thread)) {  // which may end jobs, so that others may start
    if (waiting_.empty() || running_ >= options.max_jobs) return true;
    if (!StartWaiting(thread)) return false;
  }
  return false;
}

// Resumes the coroutines whose signals were notified, also those that these notify. False: the
// thread was given up.
bool ProgramHostImpl::ResumeSignalled(ProgramThread& thread) {
  for (auto next = jobs_.begin(); next != jobs_.end();) {
    if (!next->second->resumable()) {
      ++next;
      continue;
    }
    const std::shared_ptr<ProgramRun> job = next->second;
    if (!Advance(job, thread)) return false;
    next = jobs_.begin();
  }
  return true;
}

// Returns false if the thread was given up.
bool ProgramHostImpl::Handle(const ProgramNews& news, ProgramThread& thread) {
  switch (news.kind) {
    case ProgramNews::Kind::kArrived:
      LAGOON_CHECK(waiting_.size() < options.max_pending);
      waiting_.push_back(news.job);
      return true;
    case ProgramNews::Kind::kCancelled: {
      const auto waiting = std::ranges::find(waiting_, news.id, &ProgramRun::id);
      if (waiting != waiting_.end()) (*waiting)->End(Outcome::kCancelled);
      const auto found = jobs_.find(news.id);
      if (found == jobs_.end()) return true;
      const std::shared_ptr<ProgramRun> job = found->second;
      job->End(Outcome::kCancelled);
      return Advance(job, thread);
    }
    case ProgramNews::Kind::kTaken: {
      const auto found = jobs_.find(news.id);
      if (found == jobs_.end() || found->second->abandoned()) return true;
      const std::shared_ptr<ProgramRun> job = found->second;
      job->OnTaken();
      return Advance(job, thread);
    }
    case ProgramNews::Kind::kFinished: {
      const std::shared_ptr<ProgramRun> job = jobs_.at(news.operation->job->id());
      job->OnFinished(*news.operation);
      return Advance(job, thread);
    }
  }
  CheckFailed("known News", __FILE__, __LINE__);
}

void ProgramHostImpl::ExpireWaiting() {
  const TimePoint now = device->Now();
  for (auto job = waiting_.begin(); job != waiting_.end();) {
    if ((*job)->deadline() <= now) (*job)->End(Outcome::kExpired);
    if (!(*job)->over()) {
      ++job;
      continue;
    }
    pending_.fetch_sub(1);
    const std::shared_ptr<ProgramRun> over = std::move(*job);
    job = waiting_.erase(job);
    Forget(*over);
    over->Answer(now);
  }
}

// For how long a client may leave its answers unread.
Nanoseconds ProgramHostImpl::MaxUnread() const {
  if (waiting_.empty()) return options.max_unread;
  return std::min(options.max_unread, options.max_unread_before_others);
}

// Jobs with operations end with these.
void ProgramHostImpl::ExpireIdle() {
  const TimePoint now = device->Now();
  const Nanoseconds max_unread = MaxUnread();
  std::vector<std::shared_ptr<ProgramRun>> expired;
  for (const auto& [id, job] : jobs_) {
    if (job->idle() && job->GivesUp(max_unread) <= now && !job->abandoned()) expired.push_back(job);
  }
  for (const auto& job : expired) {
    job->deadline() <= now ? job->End(Outcome::kExpired)
                           : job->EndUnread(max_unread, max_unread < options.max_unread);
    if (job->over()) Drop(job);
  }
}

bool ProgramHostImpl::StartWaiting(ProgramThread& thread) {
  while (!waiting_.empty() && running_ < options.max_jobs) {
    const std::shared_ptr<ProgramRun> job = std::move(waiting_.front());
    waiting_.pop_front();
    pending_.fetch_sub(1);
    ++running_;
    jobs_.emplace(job->id(), job);
    if (!Advance(job, thread)) return false;
  }
  return true;
}

bool ProgramHostImpl::Advance(const std::shared_ptr<ProgramRun>& job, ProgramThread& thread) {
  if (!job->abandoned()) {
    advancing_ = job;
    if (!job->Advance(thread)) return false;
    advancing_.reset();
  }
  if (!job->over()) return true;
  Drop(job);
  return true;
}

void ProgramHostImpl::Drop(const std::shared_ptr<ProgramRun>& job) {
  jobs_.erase(job->id());
  if (job->abandoned()) return;
  --running_;
  Forget(*job);
  job->Answer(device->Now());
}

void ProgramHostImpl::CancelAll() {
  for (const auto& job : waiting_) job->End(Outcome::kCancelled);
  ExpireWaiting();
  for (const auto& job : std::vector(jobs_.begin(), jobs_.end())) {
    job.second->End(Outcome::kCancelled);
    if (job.second->over()) Drop(job.second);
  }
  cancelled_ = true;
}

// ---- The watch

void ProgramHostImpl::Watch(const std::stop_token& stop) {
  NameThisThread("lagoon-watch");
  Mutex mutex;
  CondVar wake;
  const std::stop_callback notify(stop, [&] {
    const MutexLock lock(mutex);
    wake.NotifyAll();
  });
  while (!stop.stop_requested()) {
    {
      const MutexLock lock(mutex);
      if (stop.stop_requested()) return;
      wake.WaitUntil(mutex, device->Now() + options.host_limit / 4);
    }
    if (current_->GiveUp(device->Now() - options.host_limit)) GiveUp();
  }
}

// The watch's thread owns the state until it has started another thread.
void ProgramHostImpl::GiveUp() {
  const std::shared_ptr<ProgramRun> job = std::move(advancing_);
  spdlog::error("job program '{}': a coroutine does not await anything; gave it up", options.name);
  // The thread may still return. It then frees what it holds, a reference to the job among it.
  thread_.detach();
  given_up_.fetch_add(1);
  --running_;
  Forget(*job);
  job->Abandon(device->Now());
  if (job->over()) jobs_.erase(job->id());
  current_ = std::make_shared<ProgramThread>();
  StartThread();
}

ProgramHostImpl::~ProgramHostImpl() {
  {
    const MutexLock lock(link_->mutex);
    link_->host = nullptr;
  }
  if (!watch_.joinable()) {  // not opened, or on the callers' thread
    LAGOON_CHECK(jobs_.empty() && waiting_.empty());
    return;
  }
  {
    const MutexLock lock(mutex_);
    ending_ = true;
    wake_.NotifyAll();
    while (!ended_) wake_.Wait(mutex_);  // the watch keeps running meanwhile
  }
  watch_.request_stop();
  watch_.join();
  thread_.join();
}

}  // namespace lagoon
