#pragma once

// One request of a program and its coroutine. Internal to JobHost.

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sched/cost_table.h"
#include "sched/dispatcher.h"
#include "sched/job_host.h"
#include "sched/job_program.h"
#include "sched/waitlist.h"

namespace lagoon {

/// Whether a thread of a host is in the program's code, or works on the host's state, which then
/// belongs to it alone. A thread that stays in the program's code for too long can be given up:
/// the state passes to another one, and it finds out when it comes back.
class HostThread {
 public:
  /// Into the program's code, for a new resumption. By the thread.
  void EnterProgram(TimePoint now) {
    since_.store(now.time_since_epoch().count(), std::memory_order_relaxed);
    state_.store((++resumptions_ << kBits) | kProgram, std::memory_order_release);
  }
  /// Back to the host's state, false if the thread was given up. By the thread.
  bool Return() { return Change(kProgram, kHost); }
  /// After Return(), in the same resumption.
  void GoOn() { state_.store((resumptions_ << kBits) | kProgram, std::memory_order_release); }

  /// Gives the thread up if its resumption began before `limit`. By another thread, which owns the
  /// host's state if this says true.
  bool GiveUp(TimePoint limit) {
    std::uint64_t seen = state_.load(std::memory_order_acquire);
    if ((seen & kMask) != kProgram) return false;
    if (since_.load(std::memory_order_relaxed) > limit.time_since_epoch().count()) return false;
    // Fails when it has returned or been resumed since.
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

  std::uint64_t resumptions_ = 0;  // the thread's own
  std::atomic<std::uint64_t> state_{kHost};
  std::atomic<std::int64_t> since_{0};
};

class HostedJob;

/// One operation of a job: a job of the dispatcher, posted when it is active.
struct JobOperation final : JobClient {
  void Finished(const JobResult& result_in) override;

  HostedJob* job = nullptr;
  Waitlist::Op number = 0;
  std::unique_ptr<Instance> instance;  // of a kernel or copy
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  JobSpec spec;
  bool posted = false;
  JobId id{};  // the dispatcher's, once posted
  JobResult result;
};

/// What a host lends to its jobs.
class JobServices {
 public:
  virtual ~JobServices() = default;
  /// Any thread: an operation has finished.
  virtual void Tell(JobOperation& operation) = 0;
  /// What a kernel cut into so many blocks costs; the host's own, for good. The dispatcher reads
  /// and refines it.
  virtual CostTable& CostsOf(KernelHandle kernel, std::uint32_t blocks) = 0;
  virtual const KernelSpec* FindKernel(KernelHandle kernel) const = 0;

  JobHostOptions options;
  std::vector<JobModel> models;  // as the options say
  QueueId queue{};               // where kernels and copies are posted
  CostTable* copy_costs = nullptr;
  Device* device = nullptr;
  Dispatcher* dispatcher = nullptr;
};

/// Not thread-safe: only for whoever owns the host's state, but for what the coroutine calls, which
/// takes the state for the call.
class HostedJob final : public JobContext {
 public:
  HostedJob(JobServices& services, std::shared_ptr<JobProgram> program, JobId id,
            const JobSpec& spec);

  JobId id() const { return id_; }
  TimePoint deadline() const { return deadline_; }

  /// Makes the coroutine on the first call, and resumes it until it awaits what is not complete, or
  /// ends. False: the thread was given up meanwhile, and owns nothing any more.
  bool Advance(HostThread& thread);
  /// The operation has left the dispatcher.
  void OnFinished(JobOperation& operation);
  /// Nothing of it runs or will run: it can be answered.
  bool over() const { return failing_ ? posted_ == 0 : returned_ && waitlist_.incomplete() == 0; }
  /// It ends like this, once what was posted has left. Later reasons do not count.
  void End(Outcome outcome, std::optional<Error> error = std::nullopt);
  /// Tells the client. `now`: the device's.
  void Answer(TimePoint now);
  /// The thread that runs it does not come back: answers for it, and what it calls has no effect.
  void Abandon(TimePoint now);
  bool abandoned() const { return abandoned_; }

  // JobContext
  std::span<const std::byte> input(std::size_t index) const override { return inputs_.at(index); }
  std::span<std::byte> output(std::size_t index) override { return outputs_.at(index); }
  Result<std::byte*> Allocate(std::size_t bytes) override;
  JobStream CreateStream(StreamKind kind) override;
  JobWait Launch(KernelHandle kernel, std::span<const std::byte> args, std::uint32_t blocks,
                 JobStream stream) override;
  JobWait CopyToDevice(std::byte* to, const void* from, std::size_t bytes,
                       JobStream stream) override;
  JobWait CopyToHost(void* to, const std::byte* from, std::size_t bytes, JobStream stream) override;
  JobWait Run(const JobModel& model, std::span<const void* const> inputs,
              std::span<void* const> outputs, JobStream stream) override;

 private:
  friend struct JobOperation;

  bool Ready(const JobWait& wait) override;
  void SuspendUntil(const JobWait& wait) override { wait_ = wait; }
  bool IsComplete(const JobWait& wait) const;
  template <typename Call>
  auto FromProgram(Call call, decltype(call()) without);
  std::unique_ptr<JobOperation> MakeCall(std::byte* arena, Plan plan, CostTable& costs);
  JobWait Issue(std::unique_ptr<JobOperation> operation, JobStream stream);
  JobWait Refuse(std::string message);
  JobWait NoWait() { return {*this, JobWait::Kind::kAll, 0}; }
  void Post(JobOperation& operation);
  void Resume(HostThread& thread);
  void TakeResult();

  JobServices& services_;
  const std::shared_ptr<JobProgram> program_;
  const JobId id_;
  const TimePoint deadline_;
  JobClient* client_;
  std::vector<void*> client_outputs_;
  std::vector<std::vector<std::byte>> inputs_, outputs_;  // its own: it may outlive the request
  std::vector<Buffer> memory_;
  HostThread* thread_ = nullptr;  // that resumed it last
  JobTask task_;
  bool started_ = false, returned_ = false, failing_ = false, abandoned_ = false;
  std::optional<JobWait> wait_;
  Waitlist waitlist_;
  std::map<Waitlist::Op, std::unique_ptr<JobOperation>> operations_;  // incomplete ones
  std::size_t posted_ = 0;                                            // of them
  std::uint64_t issued_ = 0;
  JobResult result_;
};

}  // namespace lagoon
