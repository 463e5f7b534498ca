#pragma once

// One request of a program and its coroutine. Internal to ProgramHost.

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sched/cost_table.h"
#include "sched/dispatcher.h"
#include "sched/programs/job_program.h"
#include "sched/programs/program_estimate.h"
#include "sched/programs/program_host.h"
#include "sched/programs/waitlist.h"

namespace lagoon {

/// Records whether a thread of a host runs the program's code or works on the host's state, which
/// then belongs to this thread alone. A thread that stays in the program's code for too long can be
/// given up: the state passes to another thread, and Return() of the given-up thread is false.
class ProgramThread {
 public:
  /// Enters the program's code for a new resumption. Called by the thread itself.
  void EnterProgram(TimePoint now) {
    since_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    state_.store((++resumptions_ << kBits) | kProgram, std::memory_order_release);
  }
  /// Goes back to the host's state; false if the thread was given up. Called by the thread itself.
  bool Return() { return Change(kProgram, kHost); }
  /// Enters the program's code again after Return(), in the same resumption.
  void GoOn() { state_.store((resumptions_ << kBits) | kProgram, std::memory_order_release); }

  /// Gives the thread up if its resumption did not begin after `limit`. Called by another thread,
  /// which owns the host's state if this returns true.
  bool GiveUp(TimePoint limit) {
    std::uint64_t seen = state_.load(std::memory_order_acquire);
    if ((seen & kMask) != kProgram) return false;
    if (since_.load(std::memory_order_relaxed) > limit.time_since_epoch().count()) return false;
    // Fails when the thread has returned or begun another resumption since the load.
    return state_.compare_exchange_strong(seen, kGivenUp, std::memory_order_acq_rel);
  }

 private:
  static constexpr int kBits = 2;
  static constexpr std::uint64_t kMask = 3, kHost = 0, kProgram = 1, kGivenUp = 2;

  bool Change(std::uint64_t from, std::uint64_t to) {
    std::uint64_t expected = (resumptions_ << kBits) | from;
    return state_.compare_exchange_strong(expected, (resumptions_ << kBits) | to,
                                          std::memory_order_acq_rel);
  }

  std::uint64_t resumptions_ = 0;  // only used by the thread itself
  std::atomic<std::uint64_t> state_{kHost};
  std::atomic<std::int64_t> since_{0};
};

class ProgramRun;

/// An instance of a program, and the costs of its plan there.
struct HostedInstance final : JobInstance {
  HostedInstance(const ProgramModel& hosted_in, const JobModel& model_in,
                 std::unique_ptr<Instance> instance_in)
      : hosted(hosted_in),
        model(model_in),
        instance(std::move(instance_in)),
        costs(hosted.loaded->plan) {}
  std::byte* input(std::size_t index) override {
    return instance->arena(hosted.loaded->plan.inputs.at(index).range);
  }
  bool Clear(std::size_t index, std::size_t offset, std::size_t bytes) override;

  const ProgramModel& hosted;
  const JobModel& model;
  std::unique_ptr<Instance> instance;
  CostTable costs;
  bool runs = false;  // an operation with it is issued and not complete
};

/// One operation of a job. The operation is posted as a job of the dispatcher when it is active.
struct JobOperation final : JobClient {
  void Finished(const JobResult& result_in) override;

  ProgramRun* job = nullptr;
  Waitlist::Op number = 0;
  std::unique_ptr<Instance> instance;         // set for a kernel or copy; null for a model
  HostedInstance* hosted = nullptr;           // set for a run on an instance of the program
  const ProgramModel* model = nullptr;        // set for a run of a model
  std::optional<ProgramEstimate::Kind> kind;  // none for a copy
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  JobSpec spec;
  bool posted = false;
  JobId id{};  // id in the dispatcher, once posted
  JobResult result;
};

/// Arguments of the body of JobContext::Fill().
struct FillArgs {
  std::byte* to = nullptr;
  std::size_t bytes = 0;
  std::uint8_t value = 0;
};

/// What a host offers to its jobs.
class JobServices {
 public:
  virtual ~JobServices() = default;
  /// An operation has finished. Any thread.
  virtual void Tell(JobOperation& operation) = 0;
  /// Costs of a kernel launched with so many blocks. Owned by the host and valid as long as the
  /// host. The dispatcher reads and refines them.
  virtual CostTable& CostsOf(KernelHandle kernel, std::uint32_t blocks) = 0;
  virtual const KernelSpec* FindKernel(KernelHandle kernel) const = 0;
  /// What the client of a job calls when it has taken an answer. May outlive the host.
  virtual std::function<void()> TakenBy(JobId job) = 0;

  ProgramHostOptions options;
  std::vector<JobModel> models;  // in the order of options.models
  QueueId queue{};               // where kernels and copies are posted
  CostTable* copy_costs = nullptr;
  KernelHandle fill{};  // the body of JobContext::Fill()
  ProgramEstimate estimate;
  Device* device = nullptr;
  Dispatcher* dispatcher = nullptr;
};

/// Not thread-safe: only the thread that owns the host's state may call it. The methods of
/// JobContext, which the coroutine calls, take the state for the time of the call.
class ProgramRun final : public JobContext {
 public:
  ProgramRun(JobServices& services, std::shared_ptr<JobProgram> program, JobId id,
             const JobSpec& spec);

  JobId id() const { return id_; }
  TimePoint deadline() const { return deadline_; }

  /// Makes the coroutine on the first call, and resumes it until it awaits something incomplete or
  /// ends. False: the thread was given up meanwhile and does not own the host's state any more.
  bool Advance(ProgramThread& thread);
  /// The operation has left the dispatcher.
  void OnFinished(JobOperation& operation);
  /// The client has taken an answer.
  void OnTaken() { --untaken_; }
  /// When the job ends if nothing happens: at its deadline, or when the client has not taken an
  /// answer for `max_unread`.
  TimePoint GivesUp(Nanoseconds max_unread) const {
    const bool full = untaken_ == kMaxSent && !failing_ && !returned_;
    return full ? std::min(deadline_, full_since_ + max_unread) : deadline_;
  }
  /// Whether the coroutine awaits something that is complete and can be resumed.
  bool resumable() const {
    return started_ && !failing_ && !returned_ && wait_ && IsComplete(*wait_);
  }
  /// Whether no operation runs, so that only the host can see that the deadline has passed.
  bool idle() const { return posted_ == 0; }
  /// Whether nothing of the job runs or will run, so that the job can be answered.
  bool over() const { return failing_ ? posted_ == 0 : returned_ && waitlist_.incomplete() == 0; }
  /// Makes the job end with this outcome, once the posted operations have finished. Later calls
  /// have no effect.
  void End(Outcome outcome, std::optional<Error> error = std::nullopt);
  /// The client has not taken an answer for `max_unread`, which is less while others wait.
  void EndUnread(Nanoseconds max_unread, bool others_wait);
  /// Calls the client's Finished(). `now`: the device's time.
  void Answer(TimePoint now);
  /// The thread that runs the coroutine was given up: answers in its place. What the coroutine
  /// calls from now on has no effect.
  void Abandon(TimePoint now);
  bool abandoned() const { return abandoned_; }

  // JobContext
  std::span<const std::byte> input(std::size_t index) const override { return inputs_.at(index); }
  std::span<std::byte> output(std::size_t index) override { return outputs_.at(index); }
  Result<std::byte*> Allocate(std::size_t bytes) override;
  JobStream CreateStream(StreamKind kind) override;
  JobEvent CreateEvent() override;
  void Record(JobEvent event, JobStream stream) override;
  void WaitFor(JobEvent event, JobStream stream) override;
  JobWait Launch(KernelHandle kernel, std::span<const std::byte> args, std::uint32_t blocks,
                 JobStream stream) override;
  JobWait CopyToDevice(std::byte* to, const void* from, std::size_t bytes,
                       JobStream stream) override;
  JobWait Fill(std::byte* to, std::uint8_t value, std::size_t bytes, JobStream stream) override;
  JobWait CopyToHost(void* to, const std::byte* from, std::size_t bytes, JobStream stream) override;
  JobWait Run(const JobModel& model, std::span<const void* const> inputs,
              std::span<void* const> outputs, JobStream stream) override;
  JobWait Run(JobInstance& instance, std::span<const void* const> inputs,
              std::span<void* const> outputs, JobStream stream) override;
  JobWait Send() override;

 private:
  friend struct JobOperation;

  bool Ready(const JobWait& wait) override;
  void SuspendUntil(const JobWait& wait) override { wait_ = wait; }
  bool IsComplete(const JobWait& wait) const;
  template <typename Call>
  auto FromProgram(Call call, decltype(call()) without);
  std::unique_ptr<JobOperation> MakeCall(std::byte* arena, Plan plan, CostTable& costs);
  JobWait Issue(std::unique_ptr<JobOperation> operation, JobStream stream);
  JobWait IssueKernel(KernelHandle kernel, const KernelSpec& spec, std::span<const std::byte> args,
                      std::uint32_t blocks, JobStream stream);
  bool MayMark(JobEvent event, JobStream stream);
  bool HasPlace();
  JobWait Refuse(std::string message);
  bool MayIssue();
  JobWait NoWait() { return {*this, JobWait::Kind::kAll, 0}; }
  void Post(JobOperation& operation);
  void NoteTime(const JobOperation& operation);
  void Resume(ProgramThread& thread);
  void TakeResult();

  JobServices& services_;
  const std::shared_ptr<JobProgram> program_;
  const JobId id_;
  const TimePoint deadline_;
  const std::uint32_t tenant_;  // JobSpec::tenant, of all operations
  JobClient* client_;
  std::vector<void*> client_outputs_;
  std::vector<std::vector<std::byte>> inputs_, outputs_;  // copies: the job may outlive the request
  std::vector<Buffer> memory_;
  ProgramThread* thread_ = nullptr;  // the thread that resumed the job last
  JobTask task_;
  bool started_ = false, returned_ = false, failing_ = false, abandoned_ = false;
  std::optional<JobWait> wait_;
  Waitlist waitlist_;
  std::map<Waitlist::Op, std::unique_ptr<JobOperation>> operations_;  // incomplete operations
  std::size_t posted_ = 0;                                            // how many of them are posted
  ProgramEstimate::Counts counts_;                                    // all that were posted
  std::uint64_t issued_ = 0;
  std::uint32_t untaken_ = 0;  // answers that were sent and not taken
  TimePoint full_since_;       // valid while these are the most
  JobResult result_;
};

}  // namespace lagoon
