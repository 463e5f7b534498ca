#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "sched/dispatcher.h"
#include "sched/programs/job_program.h"

namespace lagoon {

/// A model that a program may run, with the queue that runs it.
struct ProgramModel {
  std::string role;
  QueueId queue{};
  std::shared_ptr<const LoadedPlan> loaded;
  /// Called at the end of each run, if it is set: for statistics. On a thread of the host.
  std::function<void(const JobResult&)> ran = {};
  QueuePlan* queue_plan = nullptr;  // the plan on the queue; null: it is the queue's first plan
};

struct ProgramHostOptions {
  std::string name;  // for messages: the model
  JobClass job_class = JobClass::kBestEffort;
  std::vector<TensorSpec> inputs, outputs;  // of one request
  bool decoupled = false;                   // its coroutines may send answers
  std::vector<ProgramModel> models;
  std::map<std::string, std::string> parameters;
  std::uint32_t max_jobs = 16;   // jobs that have started, each a coroutine; others wait
  std::size_t max_pending = 64;  // jobs that wait
  std::uint64_t max_operations = std::uint64_t{1} << 20;  // most operations of one job
  /// A coroutine that computes on the host for longer than this without awaiting is given up.
  Nanoseconds host_limit = std::chrono::seconds(10);
  /// A job whose client takes no answer for so long, while the most are sent, ends as kFailed: it
  /// holds what others wait for.
  Nanoseconds max_unread = std::chrono::seconds(10);
  /// As max_unread, but while other jobs wait to start. The shorter of the two counts.
  Nanoseconds max_unread_before_others = std::chrono::seconds(1);
  /// Whether the thread that brings news resumes the coroutines: only for virtual time, where one
  /// thread does everything. Otherwise a thread of the host resumes them, as they may compute.
  bool on_callers_thread = false;
};

/// Runs the coroutines of one program. Their operations are jobs of the dispatcher, each posted
/// when the order of its streams lets it start, so that policies choose among the operations of all
/// jobs and models (Paella 5.2). Any thread may call any method.
class ProgramHost {
 public:
  /// Initialises `program`. An error of the program is annotated with options.name. Dispatcher and
  /// device outlive the host.
  static Result<std::unique_ptr<ProgramHost>> Create(ProgramHostOptions options,
                                                     std::unique_ptr<JobProgram> program,
                                                     Device& device, Dispatcher& dispatcher);
  /// Cancels the jobs that are left and waits for their ends, but not for coroutines that were
  /// given up.
  virtual ~ProgramHost() = default;

  /// As Dispatcher::Post, but copies the bytes of the inputs, and uses only inputs, outputs,
  /// deadline and client of `spec`. Ids differ from all ids of the dispatcher. An error of the
  /// coroutine makes the job end as kFailed with a message.
  virtual Result<JobId> Post(const JobSpec& spec) = 0;
  /// Ignores unknown ids, among them those of the dispatcher and of other hosts.
  virtual void Cancel(JobId job) = 0;
  virtual std::size_t Pending() const = 0;
};

}  // namespace lagoon
