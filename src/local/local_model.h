#pragma once

// A model loaded into a LocalDevice.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "graph/onnx_model.h"
#include "local/local_device.h"
#include "local/memory_file.h"
#include "local/plans/model_plans.h"
#include "local/run_code.h"
#include "plan/instance.h"
#include "plan/precision.h"
#include "sched/job.h"

namespace lagoon {

struct LocalModelOptions {
  std::string name;  // for messages, statistics and traces; empty: that of the file
  JobClass job_class = JobClass::kBestEffort;
  Nanoseconds deadline{0};  // of a run that has no other, after its start; 0: none
  double weight = 1;        // above 0; what the scheduler `weighted` gives the model
  double share = 0;         // above 0, at most 1: part of the device's units; 0: all, with others
  std::uint32_t concurrency = 1;  // runs at once, each with memory of its own
  std::size_t max_pending = 64;   // runs that wait for one of these; one more is kUnavailable
  bool newest_wins = false;       // the oldest run that waits ends as kSuperseded instead
  Precision precision = Precision::kFp32;
  int profile_runs = 0;  // measures each kernel in so many runs at load; 0: estimates
  std::string engine;    // path of ONNX Runtime's library, for ops that Lagoon lacks; empty: none
  /// Gets warnings about the model, on threads that run it; must not throw. Empty: the log does.
  std::function<void(const std::string&)> warn = {};
};

/// An ONNX model in memory.
struct ModelBytes {
  std::span<const std::byte> bytes;  // copied
  std::string folder = {};           // of the files with external weights; empty: there are none
  /// External weights, if not in files. Read during the load, and later if MayReadWeights().
  std::shared_ptr<const WeightSource> weights = nullptr;
};

/// Counts of runs of one model, since it was loaded.
struct LocalModelStatistics {
  std::uint64_t done = 0, expired = 0, cancelled = 0, superseded = 0, too_late = 0, failed = 0;
  std::uint64_t late = 0;  // ended behind their due time, or not at all because of it
  std::uint64_t revocations = 0;
  std::uint64_t compiled = 0;  // plans that were made, also at load
  std::size_t plans = 0;       // that are kept now
  std::size_t plan_bytes = 0;  // memory that these plans take beside the weights: about right
  Nanoseconds queued{0};       // sum over the runs that are done: from the call to the first block
  Nanoseconds computed{0};     // and from there to the end
  std::size_t pending = 0;     // runs that wait for an instance now
};

/// Any thread may use a model. Outlives its runs; the device outlives the model. Plans are made for
/// the shapes of runs, and for the contents of inputs that decide shapes, and kept (kKeptPlans).
/// Models of one device with equal weights have them in memory once.
class LocalModel {
 public:
  static constexpr std::uint32_t kMostConcurrency = 256;
  static constexpr std::size_t kMostPending = std::size_t{1} << 20;
  /// So many runs in a row that each compile a plan cause a warning, once for each model.
  static constexpr int kManyNewPlans = 8;
  /// Many, so that texts of all lengths compile each length once.
  static constexpr PlanCache::Limits kKeptPlans{.plans = 1024, .bytes = std::size_t{128} << 20};

  /// Reads the file and makes the first plan, or a plan for guessed shapes where the file leaves
  /// shapes open: packs the weights, seconds for a large model. Errors name the model, and the node
  /// and op that cannot be run. kInvalidArgument for options out of bounds names them.
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
  const std::vector<DeclaredTensor>& inputs() const { return plans_->model().inputs(); }
  const std::vector<DeclaredTensor>& outputs() const { return plans_->model().outputs(); }

  /// kInvalidArgument: not above 0.
  Status SetWeight(double weight);
  /// Above 0, at most 1. kInvalidArgument also where the device has no shares.
  Status SetShare(double share);
  /// Of runs that start from now on. 0: none.
  void SetDeadline(Nanoseconds deadline) { deadline_ns_.store(deadline.count()); }
  Nanoseconds deadline() const { return Nanoseconds(deadline_ns_.load(std::memory_order_relaxed)); }
  /// Of runs that are prepared from now on and have no class of their own.
  void SetClass(JobClass job_class) { job_class_.store(job_class); }
  JobClass job_class() const { return job_class_.load(std::memory_order_relaxed); }

  LocalModelStatistics Statistics() const;
  /// Whether a plan that a later run needs may read weights again. If not, there is one plan, and
  /// it has them packed.
  bool MayReadWeights() const { return may_read_weights_; }

  // ---- For Run

  /// A plan on the queue of one class.
  struct BoundPlan {
    std::shared_ptr<ServedPlan> plan;
    QueuePlan* on = nullptr;  // valid while `plan` is
    QueueId queue{};
    Nanoseconds compiling{0};  // time that it took to make the plan; 0: it was there
  };
  /// Finds or makes the plan: milliseconds. `before`: the plan of the part before; null: the first
  /// part. `inputs`: the contents of all inputs of the model or part. Any thread.
  Result<BoundPlan> PlanFor(std::shared_ptr<ServedPlan> before, const std::vector<Dims>& dims,
                            std::span<const std::span<const std::byte>> inputs, JobClass job_class);
  /// A run that has ended.
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
  struct Counts {
    std::atomic<std::uint64_t> done{0}, expired{0}, cancelled{0}, superseded{0}, too_late{0},
        failed{0}, late{0}, revocations{0}, compiled{0};
    std::atomic<std::int64_t> queued_ns{0}, computed_ns{0};
  };

  LocalModel(LocalDevice& device, LocalModelOptions options);
  static Status CheckOptions(const LocalModelOptions& options);
  Status Open(const std::string& path, const ModelBytes* bytes);
  Status MakeFirstPlan();
  Status Profile(PlanDraft& draft) const;
  Result<QueueId> QueueOf(JobClass job_class) REQUIRES(mutex_);
  Result<std::shared_ptr<ServedPlan>> Compile(const std::shared_ptr<ServedPlan>& before,
                                              const std::vector<Dims>& dims,
                                              std::span<const std::span<const std::byte>> inputs)
      REQUIRES(mutex_);
  Status Bind(ServedPlan& plan, JobClass job_class) REQUIRES(mutex_);
  /// A run has compiled the plan of its shapes. Warns where run after run does.
  void NoteNewShapes(Nanoseconds compiling) REQUIRES(mutex_);
  /// False: the plan is not on the queue of that class yet.
  bool FindBound(const std::shared_ptr<ServedPlan>& plan, JobClass job_class, BoundPlan& bound);
  /// The place of the plan of a class: PlanOnQueues::own is for the class that the model was loaded
  /// with, `lowered` for the other one.
  std::unique_ptr<QueuePlan>& PlaceOf(ServedPlan& plan, JobClass job_class) const {
    return job_class == options_.job_class ? plan.on.own : plan.on.lowered;
  }

  LocalDevice& device_;
  LocalModelOptions options_;
  std::atomic<std::int64_t> deadline_ns_{0};
  std::atomic<JobClass> job_class_{JobClass::kBestEffort};
  // Of a model that was loaded from bytes: the importer reads weights again when a later plan
  // needs them.
  std::optional<MemoryFile> file_;
  std::string path_;
  std::unique_ptr<ModelPlans> plans_;
  bool may_read_weights_ = true;  // set by the load
  Mutex mutex_;                   // held while a plan is made, for milliseconds
  std::array<ClassQueue, 2> classes_ GUARDED_BY(mutex_);
  std::optional<UnitRange> units_ GUARDED_BY(mutex_);
  // Of runs one after the other that each compiled a plan, until there is a warning.
  int new_in_a_row_ GUARDED_BY(mutex_) = 0;
  Nanoseconds compiling_in_a_row_ GUARDED_BY(mutex_){0};
  std::uint64_t ended_at_new_shapes_ GUARDED_BY(mutex_) = 0;
  double weight_ GUARDED_BY(mutex_) = 1;
  mutable Mutex bound_mutex_;                                              // held for nanoseconds
  std::array<std::optional<QueueId>, 2> queues_ GUARDED_BY(bound_mutex_);  // by class
  Counts counts_;
};

}  // namespace lagoon
