#pragma once

#include <cstdint>
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

/// How a job ended.
enum class Outcome : std::uint8_t {
  kDone,        // outputs are valid
  kCancelled,   // Dispatcher::Cancel
  kExpired,     // its deadline passed while it was queued or running
  kSuperseded,  // a newer request of its queue took its place (Overflow::kNewestWins)
  kFailed,      // the device was lost, or JobResult::error
};
std::string_view Name(Outcome outcome);

/// What happened to a job, stamped by the device's clock. Stamps of stages never reached equal
/// `finished`.
struct JobResult {
  Outcome outcome = Outcome::kFailed;
  TimePoint posted;               // Post() was called: the producer's stamp, before any wake-up
  TimePoint started;              // first submission to the device; queueing ends
  TimePoint first_block;          // the first block of the job, an input's copy included, ran
  TimePoint inputs_copied;        // all inputs in the arena
  TimePoint computed;             // the last kernel was complete
  TimePoint finished;             // outputs copied, everything retired
  std::uint32_t revocations = 0;  // times that its running or queued work was revoked
  std::uint64_t resumed_blocks =
      0;  // blocks that a revocation found done and that did not run again
  /// kFailed: why, where it was not the device. Set only by a JobHost.
  std::shared_ptr<const Error> error;
};

/// Whoever posted a job. Owned by the poster; must live until Finished returns.
class JobClient {
 public:
  virtual ~JobClient() = default;
  /// Exactly once per accepted job, on any thread, without a lock of the dispatcher. Nothing of the
  /// job is used any more: the client may free it. Must be short (hand over to a thread of your
  /// own) and must not block; it may Post().
  virtual void Finished(const JobResult& result) = 0;
};

class CostTable;

/// One request's execution. Pointers must stay valid until Finished.
struct JobSpec {
  QueueId queue{};
  TimePoint deadline = kNoDeadline;  // enforced while queued and while running
  std::span<const void* const>
      inputs;  // one per plan input, of its bytes; copied by Post (the pointers)
  std::span<void* const> outputs;  // one per plan output; null: not wanted, and not copied
  JobClient* client = nullptr;
  std::size_t size = 0;  // which plan of the queue's instances: LoadedPlan::at
  /// What it runs instead of its queue's plan, in the place of an instance of the queue, and what
  /// that costs. Null: the queue's. The instance is idle until the job is posted.
  Instance* instance = nullptr;
  CostTable* costs = nullptr;
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
  /// Borrowed, of one LoadedPlan; as many jobs run at once; at least one.
  std::vector<Instance*> instances;
  std::size_t max_pending = 64;  // jobs that wait for an instance; at least one
  Overflow overflow = Overflow::kReject;
};

}  // namespace lagoon
