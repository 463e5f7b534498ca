#pragma once

// The host of one program. Internal to program_host.cc and program_host_setup.cc.

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "sched/programs/program_host.h"
#include "sched/programs/program_run.h"

namespace lagoon {

// Most threads that a host may lose to coroutines that do not return.
inline constexpr std::size_t kMaxGivenUp = 4;

/// An event for the thread that owns the host's state.
struct ProgramNews {
  enum class Kind : std::uint8_t { kArrived, kCancelled, kTaken, kFinished } kind{};
  std::shared_ptr<ProgramRun> job;    // kArrived
  JobId id{};                         // kCancelled, kTaken
  JobOperation* operation = nullptr;  // kFinished
};

class ProgramHostImpl;

/// What is left of a host where clients may call after its end.
struct HostLink {
  Mutex mutex;
  ProgramHostImpl* host GUARDED_BY(mutex) = nullptr;
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
  std::size_t MostNews() const {
    return MostJobs() * (2 + JobContext::kMaxSent + JobContext::kMaxOperations);
  }

  // JobServices
  void Tell(JobOperation& operation) override {
    Tell({.kind = ProgramNews::Kind::kFinished, .job = {}, .operation = &operation});
  }
  std::function<void()> TakenBy(JobId job) override;
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
  Result<JobInstance*> MakeInstance(const JobModel& model) override;
  std::optional<std::string> Parameter(const std::string& name) const override;

  Status Initialise();
  void Tell(ProgramNews news);
  void Forget(const ProgramRun& job);
  void StartThread();
  void Loop(ProgramThread& thread);
  bool WaitForNews();
  bool TakeNews();
  bool HandleAll(ProgramThread& thread);
  bool Handle(const ProgramNews& news, ProgramThread& thread);
  bool StartWaiting(ProgramThread& thread);
  bool ResumeSignalled(ProgramThread& thread);
  void ExpireWaiting();
  void ExpireIdle();
  Nanoseconds MaxUnread() const;
  bool Advance(const std::shared_ptr<ProgramRun>& job, ProgramThread& thread);
  void Drop(const std::shared_ptr<ProgramRun>& job);
  void CancelAll();
  void Watch(const std::stop_token& stop);
  void GiveUp();

  void Taken(JobId job);

  std::shared_ptr<JobProgram> program_;
  const std::shared_ptr<HostLink> link_ = std::make_shared<HostLink>();
  std::vector<std::unique_ptr<Instance>> places_;
  std::vector<std::unique_ptr<HostedInstance>> instances_;
  std::map<KernelHandle, KernelSpec> kernels_;
  std::atomic<std::size_t> pending_{0};  // jobs posted and not started
  std::atomic<std::size_t> given_up_{0};

  Mutex mutex_;
  CondVar wake_;
  // At most MostNews(): one kArrived for each job that has not started, one kCancelled for each
  // job, one kTaken for each answer, and one kFinished for each operation that was posted.
  std::vector<ProgramNews> news_ GUARDED_BY(mutex_);
  std::set<JobId> cancellable_ GUARDED_BY(mutex_);  // neither answered nor cancelled
  bool ending_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;

  // The state. Owned by the one thread that is not given up; if the host has no thread
  // (on_callers_thread), by the caller that handles news.
  std::deque<ProgramNews> todo_;                       // taken from news_, with the same bound
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

}  // namespace lagoon
