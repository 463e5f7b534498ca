#include "serving/request/batcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/guard.h"
#include "base/thread.h"
#include "program/parts.h"
#include "serving/request/plan_maker.h"

namespace lagoon {
namespace {

/// The most entries of Batcher::Times(), which are looked up one after the other.
constexpr std::size_t kMostKnownTimes = 32;

/// The tenant of a batch: a batch with requests of several tenants is its model's.
std::uint32_t TenantOf(const std::vector<BatchMember>& members) {
  const std::uint32_t first = members.front().tenant;
  const bool same = std::ranges::all_of(
      members, [first](const BatchMember& member) { return member.tenant == first; });
  return same ? first : 0;
}

Nanoseconds Scaled(Nanoseconds time, double factor) {
  return Nanoseconds(static_cast<std::int64_t>(factor * static_cast<double>(time.count())));
}

// The pause after a step that memory ran out in.
constexpr Nanoseconds kRetryPause = std::chrono::milliseconds(10);

}  // namespace

bool FitsBatches(const ServedPlan& plan, std::int64_t rows) {
  const Plan& of_rows = plan.loaded->plan;
  if (plan.links.next || of_rows.makes_outputs || Assumes(of_rows)) return false;
  const auto computed = [](const auto& size) { return size.has_value(); };
  if (std::ranges::any_of(plan.links.sizes, computed)) return false;
  const auto begins_with_rows = [rows](const PlanTensor& tensor) {
    return !tensor.spec.dims.empty() && tensor.spec.dims.front() == rows;
  };
  return std::ranges::all_of(of_rows.inputs, begins_with_rows) &&
         std::ranges::all_of(of_rows.outputs, begins_with_rows);
}

/// One job for several requests.
class Batcher::Batch final : public JobClient {
 public:
  Batch(Batcher& batcher, std::vector<BatchMember> members_in, std::shared_ptr<ServedPlan> plan_in)
      : members(std::move(members_in)), plan(std::move(plan_in)), batcher_(batcher) {
    const Plan& of_rows = plan->loaded->plan;
    parts.inputs.resize(of_rows.inputs.size());
    parts.outputs.resize(of_rows.outputs.size());
    for (const BatchMember& member : members) {
      member.flight->JoinBatch(plan, parts);
      rows += member.rows;
      deadline = std::max(deadline, member.deadline);
    }
    // The job reads the parts; these pointers only say which outputs are wanted.
    inputs.assign(parts.inputs.size(), nullptr);
    for (const std::vector<HostPart>& of_output : parts.outputs) {
      const auto wanted =
          std::ranges::find_if(of_output, [](auto part) { return part.data != nullptr; });
      outputs.push_back(wanted == of_output.end() ? nullptr : wanted->data);
    }
  }

  void Finished(const JobResult& result) override {
    const std::shared_ptr<Batch> self = std::move(job_reference);  // until the end of the function
    batcher_.Ended(*this, result);
  }
  void AlmostFinished() override {
    for (const BatchMember& member : members) member.flight->AlmostFinished();
  }

  std::vector<BatchMember> members;
  const std::shared_ptr<ServedPlan> plan;
  std::int64_t rows = 0;
  TimePoint deadline;  // the latest of the members
  JobParts parts;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::shared_ptr<Batch> job_reference;  // while the dispatcher has the job

  bool AllCancelled() const {
    return std::ranges::all_of(members, [](const auto& m) { return m.flight->cancelled(); });
  }

  // Under the batcher's mutex.
  JobId job{};  // 0: not known yet
  bool ended = false;

 private:
  Batcher& batcher_;
};

Batcher::Batcher(ServedModel& model, std::uint64_t priority, Dispatcher& dispatcher,
                 PlanMaker& maker)
    : model_(model),
      priority_(priority),
      dispatcher_(dispatcher),
      maker_(maker),
      max_wait_(model.MaxWait(priority)),
      queue_(model.settings().batching, model.signature().max_batch),
      limiter_(model.settings().batching.limit.MakeLimiter(model.signature().max_batch)) {
  if (limiter_ != nullptr) queue_.SetMostRows(limiter_->Limit());
  timer_ = std::jthread([this](const std::stop_token& stop) { RunTimer(stop); });
}

Batcher::~Batcher() {
  timer_ = {};
  const MutexLock lock(mutex_);
  LAGOON_CHECK(queue_.size() == 0 && posted_ == 0);
}

void Batcher::Add(const std::shared_ptr<Flight>& flight, const ServedPlan& plan) {
  const ModelSettings& settings = model_.settings();
  const BatchingSettings& batching = settings.batching;
  flight->WaitIn(*this);
  const Request& request = flight->request();
  BatchMember member{flight->handle(), flight, request.rows};
  member.shape = model_.KeyOf(nullptr, WithRows(flight->dims(), 0), {});
  member.came = Now();
  member.deadline = request.deadline;
  member.tenant = request.tenant_number();
  member.level = batching.LevelOf(request.asked.priority);
  const WaitPolicy& policy = batching.PolicyOf(member.level);
  const bool has_own = policy.own_timeout && member.deadline != kNoDeadline;
  if (policy.timeout > Nanoseconds(0) && !has_own) member.leaves = member.came + policy.timeout;
  if (max_wait_ > Nanoseconds(0)) member.gives_up = member.came + max_wait_;
  const auto refuse_late = [&](TimePoint end) {
    JobResult result = WithoutJob(Outcome::kTooLate, member.came);
    result.expected = end - member.came;
    flight->Finished(result);
  };
  const TimePoint end_alone = member.came + plan.Alone();
  if (end_alone > member.deadline) return refuse_late(end_alone);
  std::optional<BatchMember> superseded;
  bool full = false;
  std::size_t waiting = 0;
  TimePoint end = end_alone;
  {
    const MutexLock lock(mutex_);
    queue_.Asked(member.rows);
    const bool gives_way = settings.overflow == Overflow::kNewestWins;  // those ahead would
    if (member.deadline != kNoDeadline && !gives_way) end = ExpectedEnd(member);
    waiting = queue_.OfLevel(member.level);
    full = waiting >= settings.MostWaiting(member.level);
    if (full && gives_way) {
      superseded =
          queue_.TakeFirst([&](const BatchMember& other) { return other.level == member.level; });
      full = !superseded.has_value();
    }
    if (!full && end <= member.deadline) queue_.Add(member);
  }
  if (superseded) {
    superseded->flight->Finished(WithoutJob(Outcome::kSuperseded, superseded->came));
  }
  if (end > member.deadline) return refuse_late(end);
  if (full) {
    return flight->Refuse(
        {ErrorCode::kUnavailable, fmt::format("model '{}': the queue is full: {} requests wait for "
                                              "a batch",
                                              model_.name(), waiting)});
  }
  flight->HeedCancel();
  Step();
}

void Batcher::Cancel(Flight& flight) {
  std::optional<BatchMember> waiting;
  JobId job{};
  {
    const MutexLock lock(mutex_);
    const auto is_this = [&](const BatchMember& member) { return member.flight.get() == &flight; };
    waiting = queue_.TakeFirst(is_this);
    for (const Batch* const batch : running_) {
      if (std::ranges::none_of(batch->members, is_this)) continue;
      if (batch->AllCancelled()) job = batch->job;
    }
  }
  if (waiting) flight.Finished(WithoutJob(Outcome::kCancelled, waiting->came));
  if (job != JobId{}) dispatcher_.Cancel(job);
}

std::size_t Batcher::Waiting() const {
  const MutexLock lock(mutex_);
  return queue_.size();
}

std::int64_t Batcher::MostRows() const {
  const MutexLock lock(mutex_);
  return RowsNow();
}

std::int64_t Batcher::RowsNow() const {
  const std::int64_t rows = limiter_ == nullptr ? model_.signature().max_batch : limiter_->Limit();
  return ceiling_ > 0 ? std::min(rows, ceiling_) : rows;
}

void Batcher::SetCeiling(std::int64_t rows) {
  LAGOON_CHECK(rows >= 0);
  {
    const MutexLock lock(mutex_);
    if (rows == ceiling_) return;
    ceiling_ = rows;
    queue_.SetMostRows(RowsNow());
  }
  Step();  // what waits may be a full batch now
}

BatchNotice Batcher::TakeNotice() {
  const MutexLock lock(mutex_);
  return limiter_ == nullptr ? BatchNotice::kNone : limiter_->TakeNotice();
}

/// The plan for a batch of so many rows like the request of `flight`; null if there is none.
std::shared_ptr<ServedPlan> Batcher::PlanFor(const Flight& flight, std::int64_t rows,
                                             bool to_run) const {
  const PlanKey key = model_.KeyOf(nullptr, WithRows(flight.dims(), rows), {});
  auto plan = to_run ? model_.FindPlan(key) : model_.PeekPlan(key);
  return plan != nullptr && FitsBatches(*plan, rows) ? plan : nullptr;
}

/// How much longer batches take than alone on the device, because of other work.
double Batcher::Slowdown() const { return std::clamp(slowdown_.value().value_or(1), 1.0, 100.0); }

/// When the request would be answered, behind those that wait and run. A request that would run at
/// once counts as alone: if batches have been slow, it finds out whether they still are.
TimePoint Batcher::ExpectedEnd(const BatchMember& member) {
  Wanted not_made;
  const bool idle = posted_ == 0 && queue_.size() == 0;
  const BatchQueue::TimeOf times = Times(idle ? 1 : Slowdown(), not_made);
  const bool crowded = posted_ > 0 && queue_.IsCrowded(member, times);
  const Nanoseconds time = queue_.TimeWith(member, times, crowded);
  return (posted_ > 0 ? std::max(busy_until_, member.came) : member.came) + time;
}

/// `wanted`: gets the plan that is to be made, if one is.
BatchQueue::TimeOf Batcher::Times(double slowdown, Wanted& wanted) const {
  wanted.most_rows = queue_.MostRows();
  // Each answer once: the queue asks for every request that waits, and few of them differ.
  struct Known {
    std::string shape;
    std::int64_t rows;
    std::optional<Nanoseconds> time;
  };
  return [this, slowdown, &wanted, known = std::make_shared<std::vector<Known>>()](
             const BatchMember& member, std::int64_t rows) -> std::optional<Nanoseconds> {
    const auto same = [&](const Known& one) {
      return one.rows == rows && one.shape == member.shape;
    };
    const auto found = std::ranges::find_if(*known, same);
    if (found != known->end()) return found->time;
    std::optional<Nanoseconds> time;
    if (const auto plan = PlanFor(*member.flight, rows, /*to_run=*/false)) {
      time = Scaled(plan->Alone(), slowdown);
      if (member.shape == wanted.shape) wanted.rows.Found(rows);
    } else {
      Want(member, rows, wanted);
    }
    if (known->size() < kMostKnownTimes) known->push_back({member.shape, rows, time});
    return time;
  };
}

void Batcher::Want(const BatchMember& member, std::int64_t rows, Wanted& wanted) const {
  if (wanted.dims.empty()) {
    std::vector<Dims> dims = WithRows(member.flight->dims(), rows);
    if (!model_.MakesPlanFor(dims)) return;
    wanted.dims = std::move(dims);
    wanted.shape = member.shape;
  }
  if (member.shape != wanted.shape) return;
  const std::vector<std::int64_t>& preferred = model_.settings().batching.preferred;
  const bool exact = rows == wanted.most_rows || std::ranges::binary_search(preferred, rows);
  wanted.rows.Missing(rows, exact);
}

/// Answers what has expired, and posts batches until none is due or all places are taken. Where
/// memory runs out, the rest is done after a pause.
void Batcher::Step() {
  const Status done = WithoutExceptions([&]() -> Status {
    while (TakeStep()) continue;
    return {};
  });
  if (done) return;
  const MutexLock lock(mutex_);
  next_time_ = std::min(next_time_, Now() + kRetryPause);
  timer_wake_.NotifyOne();
}

/// Returns false if no batch is due.
bool Batcher::TakeStep() {
  Wanted wanted;
  BatchQueue::Expired expired;
  BatchQueue::Taken taken;
  {
    const MutexLock lock(mutex_);
    const BatchQueue::TimeOf times = Times(Slowdown(), wanted);
    const TimePoint now = Now();
    const std::uint32_t places =
        model_.settings().batching.keep_order ? 1 : model_.settings().batching.places;
    expired = queue_.TakeExpired(now, times);
    if (posted_ < places) taken = queue_.TakeBatch(now, times);
    if (!taken.batch.empty()) {
      ++posted_;  // Post() gives it back; nothing that throws comes before
    } else if (next_time_ = queue_.NextTime(posted_ < places, times); next_time_ != kNoDeadline) {
      timer_wake_.NotifyOne();
    }
  }
  const bool again = !taken.batch.empty();
  Answer(expired);
  if (again) Post(std::move(taken.batch));
  Expire(taken.dropped);  // the device has the batch meanwhile
  if (wanted.rows.Chosen() > 0) {
    maker_.Prepare(model_, WithRows(std::move(wanted.dims), wanted.rows.Chosen()));
  }
  return again;
}

/// `why`: gives the reason. Does not throw.
template <typename Why>
void Batcher::Refuse(const BatchMember& member, ErrorCode code, Why why) {
  Result<Error> error = WithoutExceptions([&]() -> Result<Error> {
    return Error{code, fmt::format("model '{}': {}", model_.name(), why())};
  });
  member.flight->Refuse(error ? *std::move(error) : std::move(error).error());
}

void Batcher::Expire(const std::vector<BatchMember>& members) {
  for (const BatchMember& member : members) {
    member.flight->Finished(WithoutJob(Outcome::kExpired, member.came));
  }
}

void Batcher::Answer(const BatchQueue::Expired& expired) {
  Expire(expired.deadline);
  for (const BatchMember& member : expired.given_up) {
    member.flight->Finished(WithoutJob(Outcome::kNotStarted, member.came));
  }
  for (const BatchMember& member : expired.queue_timeout) {
    Refuse(member, ErrorCode::kUnavailable, [&] {
      return fmt::format(
          "no batch took the request within the {:.3f} ms of default_timeout_microseconds",
          ToMilliseconds(model_.settings().batching.PolicyOf(member.level).timeout));
    });
  }
}

/// Takes a place that was counted in posted_. Does not throw.
void Batcher::Post(std::vector<BatchMember> members) {
  Result<std::shared_ptr<Batch>> batch = WithoutExceptions([&] { return MakeBatch(members); });
  if (!batch || *batch == nullptr) {
    {
      const MutexLock lock(mutex_);
      GiveBackPlace();
    }
    for (const BatchMember& member : members) {
      if (!batch) {
        Refuse(member, batch.error().code, [&] { return batch.error().message; });
      } else {
        maker_.Make(member.flight);
      }
    }
    return;
  }
  const Result<JobId> job = WithoutExceptions([&] { return PostBatch(*batch); });
  if (job) return;
  (*batch)->job_reference.reset();
  {
    const MutexLock lock(mutex_);
    std::erase(running_, batch->get());
    GiveBackPlace();
  }
  for (const BatchMember& member : (*batch)->members) {
    Refuse(member, job.error().code, [&] { return job.error().message; });
  }
}

/// Null: the plan went meanwhile, so that each request waits for a plan of its own.
Result<std::shared_ptr<Batcher::Batch>> Batcher::MakeBatch(std::vector<BatchMember>& members) {
  std::int64_t rows = 0;
  for (const BatchMember& member : members) rows += member.rows;
  std::shared_ptr<ServedPlan> plan = PlanFor(*members.front().flight, rows, /*to_run=*/true);
  if (plan == nullptr) return nullptr;
  return std::make_shared<Batch>(*this, std::move(members), std::move(plan));
}

/// After an error or an exception no job was posted.
Result<JobId> Batcher::PostBatch(const std::shared_ptr<Batch>& batch) {
  {
    const MutexLock lock(mutex_);
    running_.push_back(batch.get());
    busy_until_ = std::max(busy_until_, Now()) + Scaled(batch->plan->Alone(), Slowdown());
  }
  batch->job_reference = batch;
  JobSpec spec;
  spec.deadline = batch->deadline;
  spec.tenant = TenantOf(batch->members);
  spec.inputs = batch->inputs;
  spec.outputs = batch->outputs;
  spec.parts = &batch->parts;
  spec.client = batch.get();
  Result<JobId> job = model_.Post(spec, *batch->plan, priority_, dispatcher_);
  if (!job) return job;
  bool cancel = false;
  {
    const MutexLock lock(mutex_);
    batch->job = *job;
    cancel = !batch->ended && batch->AllCancelled();
  }
  if (cancel) dispatcher_.Cancel(*job);
  return job;
}

void Batcher::GiveBackPlace() {
  if (--posted_ == 0) busy_until_ = {};
}

void Batcher::Learn(const Batch& batch, const JobResult& result) {
  const Nanoseconds took = result.finished - result.started;
  batch.plan->Took(took);
  const Nanoseconds alone = batch.plan->Alone();
  if (alone > Nanoseconds(0)) {
    slowdown_.Add(static_cast<double>(took.count()) / static_cast<double>(alone.count()));
  }
  if (limiter_ == nullptr) return;
  try {
    limiter_->Batch(batch.rows, took, result.finished);
  } catch (const std::bad_alloc&) {
    return;  // the limiter learns from the next batch
  }
  queue_.SetMostRows(RowsNow());
}

/// The next batch is posted before this one's requests are answered, so that the device has work.
/// Where answers keep the order of the requests, it is posted after them: it could end first.
void Batcher::Ended(Batch& batch, const JobResult& result) {
  const bool answers_first = model_.settings().batching.keep_order;
  {
    const MutexLock lock(mutex_);
    std::erase(running_, &batch);
    batch.ended = true;
    if (result.outcome == Outcome::kDone) Learn(batch, result);
    if (!answers_first) GiveBackPlace();
  }
  if (!answers_first) Step();
  bool counted = false;
  for (const BatchMember& member : batch.members) {
    JobResult own = result;
    const bool done = result.outcome == Outcome::kDone;
    if (member.flight->cancelled()) {
      own.outcome = Outcome::kCancelled;
    } else if (done && result.finished > member.deadline) {
      own.outcome = Outcome::kExpired;
    }
    const bool counts = own.outcome == Outcome::kDone && !std::exchange(counted, true);
    member.flight->Finished(own, {batch.rows, counts});
  }
  if (!answers_first) return;
  {
    const MutexLock lock(mutex_);
    GiveBackPlace();
  }
  Step();
}

void Batcher::RunTimer(const std::stop_token& stop) {
  NameThisThread("lagoon-batch");
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    timer_wake_.NotifyAll();
  });
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (stop.stop_requested()) return;  // asked under the mutex: the wake may not come before it
      if (next_time_ == kNoDeadline) {
        timer_wake_.Wait(mutex_);
        continue;
      }
      if (Now() < next_time_) {
        timer_wake_.WaitUntil(mutex_, next_time_);
        continue;
      }
      next_time_ = kNoDeadline;  // Step() sets it again
    }
    Step();
  }
}

}  // namespace lagoon
