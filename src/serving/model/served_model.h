#pragma once

// One version of a model, loaded and ready to take requests.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/surface.h"
#include "device/device.h"
#include "engine/engine_host.h"
#include "local/plans/model_plans.h"
#include "local/plans/parts_alone.h"
#include "plan/instance.h"
#include "program/open_device.h"
#include "sched/dispatcher.h"
#include "sched/programs/program_host.h"
#include "serving/config/config_file.h"
#include "serving/core/models.h"
#include "serving/core/statistics.h"
#include "serving/model/buckets.h"
#include "serving/model/job_library.h"
#include "serving/model/load_options.h"
#include "serving/model/load_recorder.h"
#include "serving/model/program_warmup.h"
#include "serving/model/sequence_plan.h"
#include "serving/model/signature.h"
#include "serving/python/instance.h"

namespace lagoon {

/// The shapes of a batch of so many rows.
std::vector<Dims> WithRows(std::vector<Dims> shapes, std::int64_t rows);

/// Where a version comes from and how it is to be served.
struct ModelSource {
  std::string name;
  std::string version;
  std::string folder;  // the model's, with its label files
  std::string path;    // path of the ONNX file or of the job program's library
  ConfigFile file;
};

/// A compiled model, a job program whose coroutines run other models, a model of Python with its
/// programs, or an ensemble, which has a signature and settings only: EnsembleRun runs it.
/// Immutable after AddQueues or StartProgram, except for the statistics: any thread may use it.
/// Must outlive the dispatcher, unless RemoveQueues is called before.
class ServedModel {
 public:
  /// A model: compiles, takes the profile from the store or measures it, and creates the instances.
  /// An ensemble: reads what its config declares; its steps are not looked at (CheckSteps()).
  /// A model of Python: starts its programs, which load what they need.
  /// A job program: loads its library; kUnimplemented unless the device is a CPU. The device must
  /// be idle, unless LoadOptions::open_idle says otherwise.
  static Result<std::unique_ptr<ServedModel>> Load(ModelSource source, Device& device,
                                                   const LoadOptions& options);
  /// Load() in two steps. The first one does not run anything on the device, so that several models
  /// may be prepared at the same time, also while the device is not idle.
  static Result<std::unique_ptr<ServedModel>> Prepare(ModelSource source, Device& device,
                                                      const LoadOptions& options);
  /// The rest, once: what runs on the device.
  Status Finish(Device& device, const LoadOptions& options);

  bool is_program() const { return settings().program; }
  bool is_ensemble() const { return settings().ensemble.has_value(); }
  /// Whether it has plans and queues of its own.
  bool is_compiled() const { return !is_program() && !is_ensemble() && !is_python(); }
  /// Python programs answer its requests (PythonQueue), beside the device.
  bool is_python() const { return settings().python; }
  /// Those of a model of Python, ready to serve.
  const std::vector<std::unique_ptr<PythonInstance>>& programs() const { return programs_; }

  /// Called once, before the first request, unless this is a program. A real-time model gets a
  /// second queue, for requests that lower their class.
  Status AddQueues(Dispatcher& dispatcher);

  /// The dispatcher does not know the model any more. No request may be left. The errors are those
  /// of Dispatcher::RemoveQueue(). Not for a program.
  Status RemoveQueues(Dispatcher& dispatcher);

  /// Finds the model that a program runs; an error gives the reason why not.
  using FindModel = std::function<Result<const ServedModel*>(const std::string& name)>;
  /// The same for a program. The models that it runs must have queues already. A real-time program
  /// is started twice: the second one is for requests that lower their class. Runs the program's
  /// warm-up requests on both.
  Status StartProgram(Device& device, Dispatcher& dispatcher, const FindModel& find);
  /// Ends the jobs that a program still runs. Must be called before the dispatcher is destroyed.
  void StopProgram();

  /// The plans, by what a request brings (ModelPlans). Null: there is no such plan yet. `before`:
  /// the plan of the part before; null: the first part.
  PlanKey KeyOf(const ServedPlan* before, const std::vector<Dims>& dims,
                std::span<const std::span<const std::byte>> inputs) const;
  std::shared_ptr<ServedPlan> FindPlan(const PlanKey& key) const;
  /// The same as a mere question, which does not count as a use of the plan. Not for a program.
  std::shared_ptr<ServedPlan> PeekPlan(const PlanKey& key) const { return plans_->Peek(key); }
  /// The same; null also if the plan must be made anew, because an engine has made other shapes.
  std::shared_ptr<ServedPlan> FindFreshPlan(const PlanKey& key) const;
  /// What MakePlan() takes (ModelPlans::Want). Not for a program.
  WantedPlan Want(std::shared_ptr<ServedPlan> before, const std::vector<Dims>& dims,
                  std::span<const std::span<const std::byte>> inputs) const {
    return plans_->Want(std::move(before), dims, inputs);
  }
  /// Makes a plan that is not there yet, ready on the model's queues. One thread at a time, perhaps
  /// one of low priority. Null: the contents of more inputs decide the plan, so that the caller
  /// asks Want() again. kInvalidArgument: the model does not take these shapes.
  Result<std::shared_ptr<ServedPlan>> MakePlan(const WantedPlan& wanted, Dispatcher& dispatcher,
                                               std::uint32_t units);
  /// Keeps what MakePlan has made; other plans may go. Logs what the first plan with an op that an
  /// engine runs means. One thread at a time.
  void KeepPlan(std::shared_ptr<ServedPlan> plan);
  /// Whether these shapes of a request are known from the load on but for their rows, which are
  /// more than kReadyRows.
  bool IsLargerBatch(const std::vector<Dims>& dims) const;
  /// Whether a plan is made for these shapes of a request when it is first needed.
  bool MakesPlanFor(const std::vector<Dims>& dims) const;
  /// The answer to a request of a shape that is not among lagoon.shapes.
  Error OtherShapeError() const;

  /// Posts a request of this `priority` (InferRequest::priority), which may lower its class but
  /// never raise it. Sets spec.queue and spec.plan.
  Result<JobId> Post(JobSpec& spec, ServedPlan& plan, std::uint64_t priority,
                     Dispatcher& dispatcher);
  void Cancel(JobId job, Dispatcher& dispatcher);

  const std::string& name() const { return source_.name; }
  const std::string& version() const { return source_.version; }
  const inference::ModelConfig& config() const { return source_.file.config; }
  const ModelSettings& settings() const { return source_.file.settings; }
  /// Warnings for the operator beyond those of the config file.
  /// Nothing: the model's requests are of no sequences.
  const std::optional<SequencePlan>& sequence() const { return sequence_; }
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Part of the device that is the knee of the model's stored surface, if its share is tuned and
  /// there is one (LoadSurface).
  std::optional<double> knee() const { return knee_; }
  /// The stored surface itself, if there is one. Null: there is none.
  std::shared_ptr<const Surface> surface() const { return surface_; }
  const Signature& signature() const { return signature_; }
  const Buckets& buckets() const { return buckets_; }
  /// Whether the contents of an input decide the plan, as far as that is known.
  bool contents_decide() const { return plans_ != nullptr && !plans_->deciding().empty(); }
  /// The plan that was profiled when the model was loaded. Null: no shape was known then.
  const Plan* plan() const { return default_ == nullptr ? nullptr : &default_->loaded->plan; }
  /// Time of that plan alone on the device, with all parts behind it; 0 if there is none.
  Nanoseconds Standalone() const {
    if (parts_alone_) return parts_alone_->time;
    return plan() == nullptr ? Nanoseconds(0) : plan()->standalone;
  }
  /// For what Standalone() was measured: "image [1,3,224,224], 3 parts".
  std::string StandaloneFor() const;
  StatisticsRecorder& recorder() const { return recorder_; }
  LoadRecorder& load() { return load_; }
  /// Rows of a request, at least 1. Only a batch dimension has rows, and BindRequest() lets no
  /// empty batch pass. Without a batch dimension a request is one row, whatever its first dim is.
  std::int64_t RowsOf(const std::vector<Dims>& dims) const {
    return signature_.max_batch > 0 ? dims.front().front() : 1;
  }

  /// Dispatcher::MoveShare() and SetWeight(), for all queues of the model. Not for a program.
  Status MoveShare(UnitRange units, Dispatcher& dispatcher) const;
  Status SetWeight(double weight, Dispatcher& dispatcher) const;

  /// A warning if the model cannot meet its own deadline, else empty.
  std::string DeadlineWarning() const;
  ModelStatistics Statistics(const Dispatcher& dispatcher) const;
  /// Without the versions, which ModelTable has.
  ModelMetadata Metadata() const;

  /// The class of a request of this priority (InferRequest::priority).
  JobClass ClassOf(std::uint64_t priority) const;
  /// How long a request of this priority may wait for its turn. 0: without a limit.
  Nanoseconds MaxWait(std::uint64_t priority) const;

 private:
  /// The plans of the load while they are made.
  struct Drafts {
    std::vector<std::unique_ptr<PlanDraft>> plans;  // the first one is the default; empty: none
    bool guess = false;                             // of shapes that may be right
  };

  /// Between Prepare() and Finish().
  struct Prepared {
    Drafts drafts;
    ModelSource source;  // as it was before it was completed; empty: not needed
  };

  ServedModel(ModelSource source, Nanoseconds max_wait);
  Status Compile(Device& device, const LoadOptions& load);
  Status Measure(Device& device, const LoadOptions& load);
  Result<std::vector<std::vector<Dims>>> ShapesAtLoad(const OnnxModel& model) const;
  Result<Drafts> CompileAtLoad();
  Result<Drafts> CompileGuess();
  Status PrepareBuckets(const Drafts& drafts, Device& device, bool idle);
  Result<std::vector<TensorSpec>> OutputSpecs(const Drafts& drafts) const;
  Status Profile(Drafts& drafts, Device& device, const LoadOptions& load,
                 const ModelSource& source);
  Status ProfileBeside(Plan& plan, bool parts, Device& device, const ModelSource& source,
                       const LoadOptions& load);
  void TakePlans(Drafts drafts);
  void ProfileParts(Device& device);
  Status LoadProgram();
  Status LoadEnsemble();
  Status LoadPython(const PythonOptions& options);
  Result<std::unique_ptr<ProgramHost>> Host(JobClass job_class, Device& device,
                                            Dispatcher& dispatcher, const FindModel& find) const;
  QueueId QueueFor(std::uint64_t priority) const;
  void OpenEngine();
  Status Cut(bool several, Plan& plan) const;
  void ReadSurface(const DeviceInfo& device, const std::string& profiles);
  std::vector<std::string> OpaqueWarnings(const Plan& plan);
  Status CreateInstances(Device& device, bool idle);
  Status WarmUp(Device& device, const Plan& plan);
  Status AddPlans(Dispatcher& dispatcher);
  Result<PlanOnQueues> Bind(const std::shared_ptr<const LoadedPlan>& plan,
                            Dispatcher& dispatcher) const;
  Result<QueueId> AddQueue(Dispatcher& dispatcher, JobClass job_class,
                           const std::vector<std::unique_ptr<Instance>>& instances);

  ModelSource source_;
  Signature signature_;
  std::optional<SequencePlan> sequence_;
  std::vector<std::string> warnings_;
  std::optional<double> knee_;
  Nanoseconds split_long_{0};  // CoreOptions::split_long
  std::shared_ptr<const Surface> surface_;
  std::shared_ptr<EngineHost> engine_;  // null: there is none
  std::set<std::string> warned_of_;     // ops that the engine runs
  std::unique_ptr<ModelPlans> plans_;   // null: a program
  Buckets buckets_;
  std::unique_ptr<Prepared> prepared_;
  std::shared_ptr<ServedPlan> default_;
  std::optional<PartsAlone> parts_alone_;  // nothing: the model has one part, or it is not known
  std::shared_ptr<ServedPlan> first_;      // the plan that the instances were created with
  /// Plans that are made at load and always stay; among them default_, unless it was a guess.
  std::vector<std::shared_ptr<ServedPlan>> pinned_;
  std::vector<std::unique_ptr<Instance>> instances_;          // for the model's own class
  std::vector<std::unique_ptr<Instance>> lowered_instances_;  // real-time models only
  QueueId queue_{};
  QueueId lowered_queue_{};
  Nanoseconds max_wait_{0};                                // LoadOptions::max_wait
  std::vector<QueueId> queues_;                            // those that were added
  std::vector<std::unique_ptr<PythonInstance>> programs_;  // of Python
  std::optional<JobLibrary> library_;                      // programs only
  std::vector<WarmupBytes> warmup_;                        // the same
  std::unique_ptr<ProgramHost> host_;          // programs only: for the model's own class
  std::unique_ptr<ProgramHost> lowered_host_;  // real-time programs only
  mutable StatisticsRecorder recorder_;        // counting changes nothing of the model
  LoadRecorder load_;
};

}  // namespace lagoon
