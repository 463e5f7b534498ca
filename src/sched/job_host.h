#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "sched/dispatcher.h"
#include "sched/job_program.h"

namespace lagoon {

/// Whether an id is of a job of a host; the dispatcher's are not.
constexpr bool IsHosted(JobId job) { return (Raw(job) >> 63) != 0; }

/// A model that a program may run: where, and as what.
struct HostedModel {
  std::string role;
  QueueId queue{};
  const Plan* plan = nullptr;  // outlives the host
};

struct JobHostOptions {
  std::string name;  // for messages: the model
  JobClass job_class = JobClass::kBestEffort;
  std::vector<TensorSpec> inputs, outputs;  // of a request
  std::vector<HostedModel> models;
  std::map<std::string, std::string> parameters;
  std::uint32_t max_jobs = 16;  // coroutines at once; others wait
  std::size_t max_pending = 64;
  std::uint64_t max_operations = std::uint64_t{1} << 20;  // of one job
  /// A coroutine that computes on the host for so long without awaiting is given up.
  Nanoseconds host_limit = std::chrono::seconds(10);
  /// Coroutines are resumed by whichever thread brings news; for virtual time, where one thread
  /// does everything. Else by a thread of the host's own, since they may compute.
  bool on_callers_thread = false;
};

/// Runs the coroutines of one program. Their operations are jobs of the dispatcher, each posted
/// when the order of its streams lets it start, so that policies choose among the operations of all
/// jobs and models (Paella 5.2). Any thread may call any method.
class JobHost {
 public:
  /// Initialises `program`, whose error is annotated with the name. Dispatcher and device outlive
  /// the host.
  static Result<std::unique_ptr<JobHost>> Create(JobHostOptions options,
                                                 std::unique_ptr<JobProgram> program,
                                                 Device& device, Dispatcher& dispatcher);
  /// Cancels what is left and waits for it, but for coroutines that were given up.
  virtual ~JobHost() = default;

  /// As Dispatcher::Post: inputs, outputs, deadline and client of `spec` count. An id is never one
  /// of the dispatcher's. A coroutine's error makes the job end as kFailed with a message.
  virtual Result<JobId> Post(const JobSpec& spec) = 0;
  /// Unknown ids are ignored, those of the dispatcher and of other hosts included.
  virtual void Cancel(JobId job) = 0;
  virtual std::size_t Pending() const = 0;
};

}  // namespace lagoon
