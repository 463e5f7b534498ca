#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "base/time.h"
#include "plan/instance.h"

namespace lagoon {

/// Real-time work preempts best-effort work; within a class the policy decides.
enum class JobClass : std::uint8_t { kRealTime, kBestEffort };
std::string_view Name(JobClass job_class);  // "real-time", "best-effort"

/// How a job ended.
enum class Outcome : std::uint8_t {
  kDone,        // outputs are valid
  kCancelled,   // Dispatcher::Cancel
  kExpired,     // its deadline passed, or could not be kept any more while others waited that can
  kSuperseded,  // a newer request of its queue took its place (Overflow::kNewestWins)
  kFailed,      // the device was lost, or JobResult::error
  kTooLate,     // refused when it came: it would miss its deadline (admit_by_deadline)
  kNotStarted,  // waited for longer than its queue allows (QueueOptions::max_wait)
};
std::string_view Name(Outcome outcome);

/// The jobs of its class, or of a better one, that had the device while a job waited: for its turn,
/// or for better work that had revoked it. Where the scheduler does not preempt, of all classes.
struct RanBefore {
  std::uint32_t jobs = 0;        // as far as RecentJobs goes back
  Nanoseconds longest{0};        // that one of them had the device in that time
  std::array<char, 48> queue{};  // of that job: QueueOptions::name, cut; ends with a zero

  void SetQueue(std::string_view name) {
    queue = {};
    std::copy_n(name.data(), std::min(name.size(), queue.size() - 1), queue.data());
  }
};

/// What happened to a job, stamped by the device's clock. Stamps of stages never reached equal
/// `finished`.
struct JobResult {
  Outcome outcome = Outcome::kFailed;
  JobId job{};                    // 0: the request ended without a job
  TimePoint posted;               // Post() was called: the producer's stamp, before any wake-up
  TimePoint started;              // first submission to the device; queueing ends
  TimePoint first_block;          // the first block of the job, an input's copy included, ran
  TimePoint inputs_copied;        // all inputs in the arena
  TimePoint computed;             // the last kernel was complete
  TimePoint finished;             // outputs copied, everything retired
  Nanoseconds expected{0};        // kTooLate: from posting to the expected end
  bool background = false;        // Launch::background, of its last launches
  std::uint32_t revocations = 0;  // how often its running or queued work was revoked
  /// Blocks that were done before a revocation and did not run again.
  std::uint64_t resumed_blocks = 0;
  /// Kernels that ran again, whole, because a revocation interrupted one of their group.
  std::uint64_t repeated_kernels = 0;
  RanBefore behind;
  /// Sum of DeviceEvent::stolen.
  Nanoseconds stolen{0};
  /// kFailed: the reason, unless the device was lost. Set by a ProgramHost, and where an engine
  /// failed (Instance::Failure).
  std::shared_ptr<const Error> error;
  /// kDone: Instance::TakeMade().
  std::vector<std::shared_ptr<const MadeTensor>> made = {};
};

/// Receives the end of a job. Owned by the caller of Post; must live until Finished returns.
class JobClient {
 public:
  virtual ~JobClient() = default;
  /// Called exactly once per accepted job, on any thread, without a lock of the dispatcher. What
  /// the JobSpec pointed to is not used any more: the client may free it. Must be short (hand
  /// longer work to a thread of your own) and must not block; it may call Post().
  virtual void Finished(const JobResult& result) = 0;
  /// All kernels but the last one are complete. At most once, before Finished(), and not for a job
  /// that others follow (JobSpec::continues). Under a lock of the dispatcher: takes microseconds,
  /// waits for nothing and calls nothing of the dispatcher.
  virtual void AlmostFinished() {}
  /// A job program gives an answer before its end (JobContext::Send): its outputs, valid during
  /// this call. Any number of times, and not after Finished(). Must not block. `taken` is called
  /// once, on any thread, after this call: when the answer needs no room any more. Only clients of
  /// decoupled programs get answers.
  virtual void Sent(std::span<const std::span<const std::byte>> outputs,
                    std::function<void()> taken);
};

class CostTable;
class QueuePlan;

/// Tenants are numbered from 1 (JobSpec::tenant).
inline constexpr std::uint32_t kMaxTenants = 1024;

/// The host's side of a job's inputs and outputs in parts (Copy::parts): the job is a batch, and
/// each part belongs to one request.
struct JobParts {
  std::vector<std::vector<HostPart>> inputs, outputs;  // by plan input and output
};

/// One request's execution. Pointers must stay valid until Finished.
struct JobSpec {
  QueueId queue{};
  TimePoint deadline = kNoDeadline;  // enforced while queued and while running
  /// One pointer per plan input, to the input's bytes. Post copies the pointers, not the bytes.
  /// Null, on an instance of the job's own: the bytes that lie in the arena.
  std::span<const void* const> inputs;
  /// One pointer per plan output, to where the output is copied. Null: the output is not copied.
  std::span<void* const> outputs;
  JobClient* client = nullptr;
  /// What the job runs: a plan of this queue (Dispatcher::AddPlan), which must live until Finished.
  /// Null: the plan that the queue's instances were created with.
  QueuePlan* plan = nullptr;
  /// Runs the first() plan of this instance instead of a plan of the queue, with these costs. Set
  /// both or neither, and no plan. The job still occupies one instance of its queue. The instance
  /// must be idle when the job is posted.
  Instance* instance = nullptr;
  CostTable* costs = nullptr;
  /// Set: the tensors lie in these parts, and not where `inputs` and `outputs` point. A null
  /// pointer in `outputs` still means that the output is not copied.
  const JobParts* parts = nullptr;
  /// The client posts another job for the same request soon after this one is done, to the same
  /// queue. If the job is real-time, best-effort work does not begin in between, for a bounded time
  /// (PartGap).
  bool continues = false;
  /// It is such a job.
  bool continued = false;
  /// At least 0: expected time of the jobs that the client will post for the same request after
  /// this one (ProgramEstimate). Policies see it as a part of this job's time; admission by
  /// deadline does not, as a mean is no promise.
  Nanoseconds ahead{0};
  /// Whose the job is, for policies with deficits: the jobs of a tenant count as those of one
  /// client, whatever their queues. 0: the client is the queue. At most kMaxTenants.
  std::uint32_t tenant = 0;
};

/// What a full queue does.
enum class Overflow : std::uint8_t {
  kReject,      // Post returns kUnavailable at once
  kNewestWins,  // the oldest job not yet started leaves as kSuperseded (cameras)
};

/// The requests of one class of one model, and the instances that they run on.
struct QueueOptions {
  std::string name;  // for messages and metrics: the model
  JobClass job_class = JobClass::kBestEffort;
  /// Borrowed; at least one. Either all were created with the same LoadedPlan, or all without one.
  /// Each instance runs one job at a time.
  std::vector<Instance*> instances;
  std::size_t max_pending = 64;  // most jobs that may wait for an instance; at least one
  Overflow overflow = Overflow::kReject;
  /// A job that has waited so long for an instance or for its turn ends as kNotStarted. 0: it waits
  /// on. Jobs that have begun are not affected.
  Nanoseconds max_wait{0};
  /// The units that the queue's launches may use: a share of its own, which Dispatcher::MoveShare()
  /// moves. No units: all of the device. Holds under every scheduler.
  UnitRange units = {};
  double weight = 1;  // above 0; what `weighted` gives the queue, relative to the other queues
};

}  // namespace lagoon
