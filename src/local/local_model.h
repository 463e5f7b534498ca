#pragma once

// A model loaded into a LocalDevice.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "graph/onnx_model.h"
#include "local/local_device.h"
#include "local/plans/model_plans.h"
#include "plan/precision.h"
#include "sched/job.h"

namespace lagoon {

struct LocalModelOptions {
  std::string name;  // for messages, statistics and traces; empty: the file's name
  JobClass job_class = JobClass::kBestEffort;
  Nanoseconds deadline{0};  // of a run that has no other, after its start; 0: none
  double weight = 1;        // above 0; what the scheduler `weighted` gives the model
  double share = 0;         // above 0, at most 1: part of the device's units; 0: all, with others
  std::uint32_t concurrency = 1;  // runs at once, each with memory of its own
  std::size_t max_pending = 64;   // runs that wait for one of these; more are kUnavailable
  bool newest_wins = false;       // the oldest run that waits ends as kSuperseded instead
  Precision precision = Precision::kFp32;
  int profile_runs = 0;  // measures each kernel in so many runs; 0: estimates
  std::string engine;    // path of ONNX Runtime, for ops that Lagoon lacks; empty: none
};

/// An ONNX model in memory.
struct ModelBytes {
  std::span<const std::byte> bytes;  // borrowed until the load returns
  std::string folder = {};           // of the files with external weights; empty: there are none
};

/// Counts of runs of one model, since it was loaded.
struct LocalModelStatistics {
  std::uint64_t done = 0, expired = 0, cancelled = 0, superseded = 0, too_late = 0, failed = 0;
  std::uint64_t late = 0;  // ended behind their due time, or did not end as kOk because of it
  std::uint64_t revocations = 0;
  std::uint64_t compiled = 0;  // plans that were made, the load's included
  Nanoseconds queued{0};       // sums of the runs that are done: from the call to the first block
  Nanoseconds computed{0};     // and from there to the end
  std::size_t pending = 0;     // runs that wait for an instance now
};

/// Any thread may use a model. Outlives its runs; the device outlives the model. Plans are made for
/// the shapes of runs, and for the contents of inputs that decide shapes, and kept (PlanCache).
class LocalModel {
 public:
  /// Reads the file and, where its shapes are fixed, packs the weights and binds the first plan:
  /// seconds for a large model. Errors name the model, and node and op that cannot be run.
  static Result<std::unique_ptr<LocalModel>> Load(LocalDevice& device, const std::string& path,
                                                  LocalModelOptions options);
  static Result<std::unique_ptr<LocalModel>> LoadBytes(LocalDevice& device, const ModelBytes& bytes,
                                                       LocalModelOptions options);
  /// No run may be left.
  ~LocalModel();
  LocalModel(const LocalModel&) = delete;
  LocalModel& operator=(const LocalModel&) = delete;

  LocalDevice& device() const { return device_; }
  const LocalModelOptions& options() const { return options_; }
  const std::string& name() const { return options_.name; }
  /// As the file declares them: a dim of -1 is open.
  const std::vector<DeclaredTensor>& inputs() const;
  const std::vector<DeclaredTensor>& outputs() const;

  Status SetWeight(double weight);
  /// Above 0, at most 1. kInvalidArgument where the device has no shares.
  Status SetShare(double share);
  /// Of runs that start from now on. 0: none.
  void SetDeadline(Nanoseconds deadline) { deadline_ns_.store(deadline.count()); }
  Nanoseconds deadline() const { return Nanoseconds(deadline_ns_.load()); }
  /// Of runs that are prepared from now on, and have no class of their own.
  void SetClass(JobClass job_class) { job_class_.store(job_class); }
  JobClass job_class() const { return job_class_.load(); }

  LocalModelStatistics Statistics() const;

  // ---- For Run

  /// A plan on the queue of one class.
  struct BoundPlan {
    std::shared_ptr<ServedPlan> plan;
    QueuePlan* on = nullptr;  // valid while `plan` is
    QueueId queue{};
    Nanoseconds compiling{0};  // 0: the plan was there
  };
  /// Finds or makes the plan. `before`: the plan of the part before; null: the first part. May take
  /// milliseconds. Any thread.
  Result<BoundPlan> PlanFor(std::shared_ptr<ServedPlan> before, const std::vector<Dims>& dims,
                            std::span<const std::span<const std::byte>> inputs, JobClass job_class);
  /// Counts a run that has ended.
  struct Ended {
    RunCode code = RunCode::kOk;
    bool late = false;
    Nanoseconds queued{0}, computed{0};
    std::uint32_t revocations = 0;
  };
  void Count(const Ended& ended);

 private:
  struct ClassQueue {
    std::vector<std::unique_ptr<Instance>> instances;
    std::optional<QueueId> queue;
  };

  LocalModel(LocalDevice& device, LocalModelOptions options);
  Status Open(const std::string& path);
  Result<QueueId> QueueOf(JobClass job_class) REQUIRES(mutex_);
  Result<std::shared_ptr<ServedPlan>> Make(std::shared_ptr<ServedPlan> before,
                                           const std::vector<Dims>& dims,
                                           std::span<const std::span<const std::byte>> inputs)
      REQUIRES(mutex_);
  Result<UnitRange> UnitsOfShare(double share) const;

  LocalDevice& device_;
  LocalModelOptions options_;
  std::atomic<std::int64_t> deadline_ns_{0};
  std::atomic<JobClass> job_class_{JobClass::kBestEffort};
  std::unique_ptr<ModelPlans> plans_;
  mutable Mutex mutex_;  // held while a plan is made
  std::array<ClassQueue, 2> classes_ GUARDED_BY(mutex_);
  mutable Mutex count_mutex_;  // held for nanoseconds
  LocalModelStatistics counts_ GUARDED_BY(count_mutex_);
};

}  // namespace lagoon
