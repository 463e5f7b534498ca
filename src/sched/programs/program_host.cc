#include "sched/programs/program_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <new>
#include <set>
#include <thread>

#include "base/check.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "sched/programs/program_run.h"

namespace lagoon {
namespace {

// Most kernels and copies of all jobs of a host that run at once. Other active ones wait.
constexpr std::size_t kPlaces = 16;
// Most threads that a host may lose to coroutines that do not return.
constexpr std::size_t kMaxGivenUp = 4;

// Ids for the jobs of all hosts. Those of dispatchers count from 1, so that the two never meet.
JobId NextId() {
  static std::atomic<std::uint64_t> next{std::uint64_t{1} << 63};
  return JobId{next.fetch_add(1, std::memory_order_relaxed)};
}

// The plan of the instances of a host's queue. It never runs, so that its instances need no arena:
// only its names are shown to people.
std::shared_ptr<const LoadedPlan> PlacePlan(const std::string& name) {
  auto loaded = std::make_shared<LoadedPlan>();
  loaded->plan.model = name;
  PlanOp& op = loaded->plan.ops.emplace_back();
  op.name = op.kernel_name = "kernel";
  op.blocks = 1;
  return loaded;
}

/// An event for the thread that owns the host's state.
struct News {
  enum class Kind : std::uint8_t { kArrived, kCancelled, kFinished } kind{};
  std::shared_ptr<ProgramRun> job;    // kArrived
  JobId id{};                         // kCancelled
  JobOperation* operation = nullptr;  // kFinished
};

class ProgramHostImpl final : public ProgramHost, public JobServices, private JobSetup {
 public:
  ~ProgramHostImpl() override;
  Status Open(ProgramHostOptions options_in, std::unique_ptr<JobProgram> program, Device& device_in,
              Dispatcher& dispatcher_in);

  // ProgramHost
  Result<JobId> Post(const JobSpec& spec) override;
  void Cancel(JobId job) override;
  std::size_t Pending() const override { return pending_.load(std::memory_order_relaxed); }

  /// Most jobs that may have news: jobs that wait, have arrived since, run, or were given up.
  std::size_t MostJobs() const {
    return 4 * options.max_pending + 2 * options.max_jobs + kMaxGivenUp + 1;
  }
  std::size_t MostNews() const { return MostJobs() * (2 + JobContext::kMaxOperations); }

  // JobServices
  void Tell(JobOperation& operation) override {
    Tell({.kind = News::Kind::kFinished, .job = {}, .operation = &operation});
  }
  CostTable& CostsOf(KernelHandle kernel, std::uint32_t blocks) override;
  const KernelSpec* FindKernel(KernelHandle kernel) const override {
    const auto found = kernels_.find(kernel);
    return found == kernels_.end() ? nullptr : &found->second;
  }

 private:
  // JobSetup
  Result<KernelHandle> LoadKernel(const std::string& name, Body body,
                                  const KernelSpec& spec) override;
  Result<const JobModel*> FindModel(const std::string& role) override;
  std::optional<std::string> Parameter(const std::string& name) const override;

  Status Initialise();
  void Tell(News news);
  void Forget(const ProgramRun& job);
  void StartThread();
  void Loop(ProgramThread& thread);
  bool WaitForNews();
  bool TakeNews();
  bool HandleAll(ProgramThread& thread);
  bool Handle(const News& news, ProgramThread& thread);
  bool StartWaiting(ProgramThread& thread);
  void ExpireWaiting();
  bool Advance(const std::shared_ptr<ProgramRun>& job, ProgramThread& thread);
  void Drop(const std::shared_ptr<ProgramRun>& job);
  void CancelAll();
  void Watch(const std::stop_token& stop);
  void GiveUp();

  std::shared_ptr<JobProgram> program_;
  std::vector<std::unique_ptr<Instance>> places_;
  std::map<KernelHandle, KernelSpec> kernels_;
  std::atomic<std::size_t> pending_{0};  // jobs posted and not started
  std::atomic<std::size_t> given_up_{0};

  Mutex mutex_;
  CondVar wake_;
  // At most MostNews(): one kArrived for each job that has not started, one kCancelled for each
  // job, and one kFinished for each operation that was posted.
  std::vector<News> news_ GUARDED_BY(mutex_);
  std::set<JobId> cancellable_ GUARDED_BY(mutex_);  // neither answered nor cancelled
  bool ending_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;

  // The state. Owned by the one thread that is not given up; if the host has no thread
  // (on_callers_thread), by the caller that handles news.
  std::deque<News> todo_;                              // taken from news_, with the same bound
  std::map<JobId, std::shared_ptr<ProgramRun>> jobs_;  // started, or given up with operations left
  std::deque<std::shared_ptr<ProgramRun>> waiting_;    // at most max_pending: Post counts them
  std::map<std::pair<KernelHandle, std::uint32_t>, std::unique_ptr<CostTable>> costs_;
  CostTable no_costs_{Plan{}};
  std::shared_ptr<ProgramRun> advancing_;
  std::uint32_t running_ = 0;
  bool handling_ = false;   // a caller handles news
  bool cancelled_ = false;  // CancelAll() has run

  std::shared_ptr<ProgramThread> current_;  // changed by the watch's thread only
  std::thread thread_;
  std::jthread watch_;
};

// ---- Setting up

Status ProgramHostImpl::Open(ProgramHostOptions options_in, std::unique_ptr<JobProgram> program,
                             Device& device_in, Dispatcher& dispatcher_in) {
  options = std::move(options_in);
  program_ = std::move(program);
  device = &device_in;
  dispatcher = &dispatcher_in;
  copy_costs = &no_costs_;
  for (const ProgramModel& hosted : options.models) {
    JobModel& model = models.emplace_back();
    model.index = static_cast<std::uint32_t>(models.size() - 1);
    for (const PlanTensor& input : hosted.plan->inputs) model.inputs.push_back(input.spec);
    for (const PlanTensor& output : hosted.plan->outputs) model.outputs.push_back(output.spec);
  }
  if (Status status = Initialise(); !status) {
    return Annotate(fmt::format("job program '{}'", options.name), std::move(status).error());
  }
  QueueOptions places;
  places.name = options.name;
  places.job_class = options.job_class;
  const std::shared_ptr<const LoadedPlan> plan = PlacePlan(options.name);
  for (std::size_t i = 0; i < kPlaces; ++i) {
    places.instances.push_back(places_.emplace_back(Instance::CreateOver(nullptr, plan)).get());
  }
  places.max_pending = options.max_jobs * JobContext::kMaxStreams;  // most active operations
  LAGOON_ASSIGN_OR_RETURN(queue, dispatcher->AddQueue(std::move(places)));
  current_ = std::make_shared<ProgramThread>();
  if (options.on_callers_thread) return {};
  StartThread();
  watch_ = std::jthread([this](const std::stop_token& stop) { Watch(stop); });
  return {};
}

Status ProgramHostImpl::Initialise() {
  try {
    return program_->Init(*this);
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kInternal, fmt::format("Init() threw: {}", error.what()));
  } catch (...) {
    return Fail(ErrorCode::kInternal, "Init() threw something that is not a std::exception");
  }
}

Result<KernelHandle> ProgramHostImpl::LoadKernel(const std::string& name, Body body,
                                                 const KernelSpec& spec) {
  if (name.empty() || body == nullptr) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("kernel '{}' has no {}", name, name.empty() ? "name" : "body"));
  }
  LAGOON_ASSIGN_OR_RETURN(const KernelHandle kernel, device->Load({name, body}, spec));
  kernels_.emplace(kernel, spec);
  return kernel;
}

Result<const JobModel*> ProgramHostImpl::FindModel(const std::string& role) {
  const auto found = std::ranges::find(options.models, role, &ProgramModel::role);
  if (found == options.models.end()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("no model has the role '{}': name one by the parameter "
                            "'lagoon.model.{}'",
                            role, role));
  }
  return &models[static_cast<std::size_t>(found - options.models.begin())];
}

std::optional<std::string> ProgramHostImpl::Parameter(const std::string& name) const {
  const auto found = options.parameters.find(name);
  return found == options.parameters.end() ? std::nullopt : std::optional(found->second);
}

CostTable& ProgramHostImpl::CostsOf(KernelHandle kernel, std::uint32_t blocks) {
  std::unique_ptr<CostTable>& costs = costs_[{kernel, blocks}];
  if (costs == nullptr) {
    Plan plan;
    plan.ops.emplace_back();
    costs = std::make_unique<CostTable>(plan);
  }
  return *costs;
}

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
    Tell({.kind = News::Kind::kArrived, .job = std::move(job)});
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
  Tell({.kind = News::Kind::kCancelled, .job = {}, .id = job});
}

// Called when a job is about to be answered.
void ProgramHostImpl::Forget(const ProgramRun& job) {
  const MutexLock lock(mutex_);
  cancellable_.erase(job.id());
}

void ProgramHostImpl::Tell(News news) {
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
    const News news = std::move(todo_.front());
    todo_.pop_front();
    if (!Handle(news, thread)) return false;
  }
  ExpireWaiting();
  return StartWaiting(thread);
}

// Returns false if the thread was given up.
bool ProgramHostImpl::Handle(const News& news, ProgramThread& thread) {
  switch (news.kind) {
    case News::Kind::kArrived:
      LAGOON_CHECK(waiting_.size() < options.max_pending);
      waiting_.push_back(news.job);
      return true;
    case News::Kind::kCancelled: {
      const auto waiting = std::ranges::find(waiting_, news.id, &ProgramRun::id);
      if (waiting != waiting_.end()) (*waiting)->End(Outcome::kCancelled);
      const auto found = jobs_.find(news.id);
      if (found == jobs_.end()) return true;
      const std::shared_ptr<ProgramRun> job = found->second;
      job->End(Outcome::kCancelled);
      return Advance(job, thread);
    }
    case News::Kind::kFinished: {
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

}  // namespace

Result<std::unique_ptr<ProgramHost>> ProgramHost::Create(ProgramHostOptions options,
                                                         std::unique_ptr<JobProgram> program,
                                                         Device& device, Dispatcher& dispatcher) {
  auto host = std::make_unique<ProgramHostImpl>();
  LAGOON_RETURN_IF_ERROR(host->Open(std::move(options), std::move(program), device, dispatcher));
  return host;
}

}  // namespace lagoon
