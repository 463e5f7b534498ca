#pragma once

// The inference core behind every edge: a repository of models on one device, one dispatcher.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "base/unfilled.h"
#include "plan/tensor.h"
#include "policies/registry.h"
#include "program/open_device.h"
#include "program/profile/profile_file.h"
#include "sched/dispatcher.h"
#include "serving/fleet/fleet_report.h"
#include "serving/shares/shares_report.h"

namespace inference {
class ModelConfig;  // generated from model_config.proto, Triton's names and numbers
}

namespace lagoon {

class EngineHost;
class TraceRecorder;  // trace/recorder.h

struct InputTensor {
  std::string name;
  DataType type = DataType::kFloat32;
  Dims dims;
  std::span<const std::byte> data;  // dense row-major, little-endian; borrowed from `payload`
};

/// How the edge will write an output.
enum class OutputForm : std::uint8_t {
  kBytes,  // as it lies in memory
  kText,   // as JSON numbers; 16-bit floats, which have none, are refused before computing
};

/// Where the edge counts the memory of an answer. One request at a time.
class AnswerRoom {
 public:
  virtual ~AnswerRoom() = default;
  /// Called before the core allocates outputs, on any thread: they will take `bytes` in all, more
  /// than in the call before. kUnavailable: there is no room, and the request is refused.
  virtual Status Take(std::size_t bytes) = 0;
};

struct InferRequest {
  std::string model;
  std::string version;  // empty: the latest
  std::string id;       // echoed
  /// 0: the model's class. 1: real-time if the model is. 2 or more: best-effort.
  std::uint64_t priority = 0;
  Nanoseconds timeout{0};  // counted from `arrival`; 0: none
  TimePoint arrival;       // when the edge had the first byte
  std::vector<InputTensor> inputs;
  std::vector<std::string> outputs;  // empty: all
  std::vector<OutputForm> forms;     // one per entry of `outputs`; `form` for those beyond its end
  OutputForm form = OutputForm::kBytes;
  // Owns the bytes behind every `data`. Released before the callback runs, so that the client's
  // next request finds the buffer free.
  std::shared_ptr<const void> payload;
  /// Null: the memory of the answer is not counted.
  std::shared_ptr<AnswerRoom> room = {};
};

struct OutputTensor {
  std::string name;
  DataType type = DataType::kFloat32;
  Dims dims;
  UnfilledBytes data;
};

struct InferResponse {
  std::string model;
  std::string version;
  std::string id;
  std::vector<OutputTensor> outputs;
  JobResult job;  // stamps of every stage
  /// Until the plans for the request's shapes were ready. 0: they were.
  Nanoseconds plan_wait{0};
  /// Of that, the time behind job.posted: between the parts of a model.
  Nanoseconds plan_wait_between{0};
};

/// Called exactly once, on any thread; hand over to a thread of your own. Must not throw. Where
/// memory runs out for a request, the error is kResourceExhausted.
using InferCallback = std::function<void(Result<InferResponse>)>;

/// Names a request in flight, for Cancel.
enum class RequestHandle : std::uint64_t {};

/// Triton's statistics of one stage.
struct StageStatistics {
  std::uint64_t count = 0;
  std::uint64_t ns = 0;
};

/// Triton's statistics of the executions of one batch size.
struct BatchStatistics {
  std::uint64_t batch_size = 0;
  StageStatistics compute_input, compute_infer, compute_output;
};

struct ModelStatistics {
  std::string name;
  std::string version;
  std::uint64_t last_inference_ms = 0;  // Unix time; 0: never
  std::uint64_t inference_count = 0;    // rows of all executions
  std::uint64_t execution_count = 0;
  std::vector<BatchStatistics> batches;  // the batch sizes that have run, ascending
  StageStatistics success, fail, queue, compute_input, compute_infer, compute_output;
  // Failures by reason, as Triton's metric names them.
  std::uint64_t rejected = 0, cancelled = 0, backend = 0, other = 0;
  std::uint64_t deadline_misses = 0;  // expired, or finished after the deadline
  std::uint64_t superseded = 0;
  std::uint64_t too_late = 0;  // refused, because they would have missed their deadline
  std::uint64_t revocations = 0;
  std::uint64_t resumed_blocks = 0;
  std::uint64_t pending = 0;   // requests that wait now
  std::int64_t most_rows = 0;  // of a batch of joined requests, now; 0: requests are not joined
  double share = 0;            // part of the device; 0: the model has no share
  std::uint64_t share_moves = 0;
  Nanoseconds opaque_max{0};  // the longest run of a kernel of an engine; 0: there is none
};

struct ModelMetadata {
  std::string name;
  std::vector<std::string> versions;
  std::string platform;  // "onnxruntime_onnx" models of Triton are served as "lagoon_plan"
  std::vector<TensorSpec> inputs;  // a dim of -1 takes any size
  std::vector<TensorSpec> outputs;
  /// Above 0: the first dim of every tensor is the batch, from 1 to this number.
  std::int64_t max_batch = 0;
};

enum class ModelState { kReady, kUnavailable };

/// ModelStatus::reason of a model that nobody asked to load.
inline constexpr std::string_view kNotLoaded = "not loaded";

/// One row of the repository: what loaded and what did not, with the reason.
struct ModelStatus {
  std::string name;
  std::string version;
  ModelState state = ModelState::kUnavailable;
  std::string reason;   // why it is unavailable; names paths of the server: not for remote clients
  std::string warning;  // it serves, but not as configured: standalone latency above its deadline
  double load_ms = 0;
  Nanoseconds standalone{0};  // measured at load
  JobClass job_class = JobClass::kBestEffort;
  std::string standalone_for = {};  // "image [1,3,224,224]": a size may be a guess
};

struct ProfileOptions {
  int runs = 5;  // standalone executions of a model that has no profile yet
  ProfileStore store;
};

/// How long the core waits before it opens a lost device again. The pause doubles every time that
/// opening fails, or that the device is lost again within `longest`; it never exceeds `longest`.
struct ReopenPauses {
  Nanoseconds first = std::chrono::seconds(1);
  Nanoseconds longest = std::chrono::minutes(1);
  /// After so many tries in a row that fail, CoreOptions::on_gone is called. With the pauses above
  /// that is after half a minute.
  int tries = 5;
};

struct CoreOptions {
  std::string repository;  // Triton's layout
  /// The models to load when the core opens. Empty: all of the repository.
  std::optional<std::vector<std::string>> models = {};
  std::string scheduler = "reset";  // MakeScheduler()
  DeviceChoice device;
  std::string engine;  // ChooseEngine()
  /// An engine of the program's own, in place of `engine`. Null: there is none.
  std::shared_ptr<EngineHost> engine_host = {};
  /// What the shares of models are (lagoon.share). Empty: weights under the scheduler `weighted`
  /// and on devices that have no ranges of units, else units.
  std::optional<ShareKind> shares;
  ProfileOptions profile;
  /// A best-effort request that has waited for so long and has not begun is refused, kUnavailable:
  /// where real-time requests keep the device busy, no client waits without an end. 0: it waits on.
  Nanoseconds max_wait = std::chrono::seconds(30);
  /// Under every scheduler that preempts: SchedulerConfig::best_effort_minimum. 1 % lets a model
  /// answer now and then, so that neither its requests nor its clients wait for ever, and makes a
  /// real-time request wait for 10 ms once a second at most. 0: real-time work may take all.
  double best_effort_minimum = 0.01;
  ReopenPauses reopen;
  /// Called once per loss, on a thread of the core, when the device has not opened again in
  /// ReopenPauses::tries tries. The core goes on trying. It must not call the core. May be empty.
  std::function<void(const std::string& why)> on_gone = {};
  TraceRecorder* trace = nullptr;  // records all requests; outlives the core; null: no trace
};

/// Any thread may call any method. Open() loads the models of the repository. A model that fails
/// to load is listed with the reason and does not affect the others. When the device is lost,
/// requests in flight are answered kUnavailable, and so are all requests that come until the device
/// is open again and the models are loaded onto it. After a loss, statistics start anew and the
/// trace has ended.
class InferenceCore {
 public:
  /// kNotFound when the repository does not exist; kInvalidArgument when it cannot be read; else
  /// the errors of MakeScheduler() and OpenDevice().
  static Result<std::unique_ptr<InferenceCore>> Open(const CoreOptions& options);
  virtual ~InferenceCore() = default;

  virtual bool Ready() const = 0;  // models are loaded, and the core is not draining
  virtual std::vector<ModelStatus> Models() const = 0;
  /// kNotFound names the model or version. kUnavailable names them and refers to the log: the
  /// reason of a failed load names paths of the server, which remote clients must not see.
  virtual Status ModelReady(const std::string& model, const std::string& version) const = 0;
  virtual Result<ModelMetadata> Metadata(const std::string& model,
                                         const std::string& version) const = 0;
  virtual Result<inference::ModelConfig> Config(const std::string& model,
                                                const std::string& version) const = 0;
  /// Empty `model`: all models.
  virtual Result<std::vector<ModelStatistics>> Statistics(const std::string& model,
                                                          const std::string& version) const = 0;
  virtual DispatcherStats SchedulerStatistics() const = 0;
  virtual SchedulerConfig scheduler() const = 0;
  /// Changes to this scheduler (MakeScheduler()). Requests in flight finish under the old
  /// scheduler; later ones wait for them. `done` is called once, on any thread. For its errors see
  /// Dispatcher::Switch; kUnavailable also while the device is lost.
  virtual void SwitchScheduler(Scheduler scheduler, std::function<void(Status)> done) = 0;
  virtual DeviceInfo device() const = 0;

  /// All models that are no job programs, with their loads and shares.
  virtual Result<SharesReport> Shares() const = 0;
  /// How shares are tuned from now on. kInvalidArgument names the rule and its value; then nothing
  /// changes.
  virtual Status SetSharesRules(const SharesRules& rules) = 0;
  /// Moves the model's share at once; requests go on. kNotFound; kInvalidArgument also if the fixed
  /// shares would be more than the device. Then nothing changes.
  virtual Status ResizeShare(const std::string& model, const std::string& version,
                             const ShareWanted& wanted) = 0;

  /// Loads the model as the repository has it now, while other models serve. `done` is called once,
  /// on any thread, when the model answers requests. If the model was loaded before, requests in
  /// flight are answered by what was loaded before, which is freed then. On an error what was
  /// loaded before stays. The changes of one model are made in order; those of different models may
  /// overlap, so that a load of minutes does not hold up others.
  ///
  /// kNotFound: the repository has no such model. kInvalidArgument: the model cannot be served, or
  /// a job program runs it; the message may name paths of the server. kUnimplemented: a job
  /// program, or the core has a fixed set of models. kUnavailable: the device is lost, or too many
  /// changes wait.
  ///
  /// The shares of the device's other models make room at once. A tuned share of the model begins
  /// as when the server started; the others go on from what they have, and fixed ones and sizes
  /// that ResizeShare() gave stay.
  virtual void LoadModel(const std::string& model, std::function<void(Status)> done);
  /// Requests that come from now on find no such model. `done` is called once, on any thread, when
  /// the requests in flight are answered and the model's memory is free. A request that waits for a
  /// batch then cannot be cancelled. kNotFound: the model is not loaded. Otherwise as LoadModel.
  virtual void UnloadModel(const std::string& model, std::function<void(Status)> done);

  /// The devices of a fleet and their replicas. kUnimplemented: the core has one device.
  virtual Result<FleetReport> Fleet() const;
  /// The placer of the fleet's next decisions. kNotFound: unknown, with the list. kUnimplemented:
  /// the core has one device.
  virtual Status SetPlacer(const std::string& name);

  /// Validates, admits and returns. The answer or error comes through `callback`, possibly on this
  /// thread and before Infer returns. A full queue answers kUnavailable at once.
  virtual RequestHandle Infer(InferRequest request, InferCallback callback) = 0;
  /// For a client that went away. Ignores a handle that is no longer in flight.
  virtual void Cancel(RequestHandle handle) = 0;

  /// Refuses new requests, waits until those in flight are answered or `until`, then cancels the
  /// rest and waits for their answers.
  virtual void Drain(TimePoint until) = 0;
};

}  // namespace lagoon
