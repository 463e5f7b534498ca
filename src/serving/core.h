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
#include "plan/tensor.h"
#include "program/open_device.h"
#include "program/profile_file.h"
#include "sched/dispatcher.h"

namespace inference {
class ModelConfig;  // generated from model_config.proto, Triton's names and numbers
}

namespace lagoon {

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
  kText,   // as JSON numbers, which 16-bit floats do not have: refused before anything is computed
};

struct InferRequest {
  std::string model;
  std::string version;  // empty: the latest
  std::string id;       // echoed
  std::uint64_t priority =
      0;  // 0: the model's class. 1: real-time if the model is. 2 or more: best-effort.
  Nanoseconds timeout{0};  // 0: none. From `arrival`.
  TimePoint arrival;       // when the edge had the first byte
  std::vector<InputTensor> inputs;
  std::vector<std::string> outputs;  // empty: all
  std::vector<OutputForm> forms;     // of each of `outputs`; those that it does not reach: `form`
  OutputForm form = OutputForm::kBytes;
  // Keeps every `data` alive. Let go before the callback: who has the answer finds its room free.
  std::shared_ptr<const void> payload;
};

struct OutputTensor {
  std::string name;
  DataType type = DataType::kFloat32;
  Dims dims;
  std::vector<std::byte> data;
};

struct InferResponse {
  std::string model;
  std::string version;
  std::string id;
  std::vector<OutputTensor> outputs;
  JobResult job;  // stamps of every stage
};

/// Called exactly once, on any thread; hand over to a thread of your own.
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
  std::uint64_t inference_count = 0;    // rows of all batches
  std::uint64_t execution_count = 0;
  std::vector<BatchStatistics> batches;  // that have run, ascending
  StageStatistics success, fail, queue, compute_input, compute_infer, compute_output;
  // Failures by reason, as Triton's metric names them.
  std::uint64_t rejected = 0, cancelled = 0, backend = 0, other = 0;
  std::uint64_t deadline_misses = 0;  // expired, or finished after the deadline
  std::uint64_t superseded = 0;
  std::uint64_t revocations = 0;
  std::uint64_t resumed_blocks = 0;
  std::uint64_t pending = 0;  // waiting now
};

struct ModelMetadata {
  std::string name;
  std::vector<std::string> versions;
  std::string platform;  // "onnxruntime_onnx" models of Triton are served as "lagoon_plan"
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
};

enum class ModelState { kReady, kUnavailable };

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
};

struct ProfileOptions {
  int runs = 5;  // standalone executions of a model that has no profile yet
  ProfileStore store;
};

/// How long the core waits before it opens a lost device again; twice as long every time that this
/// fails, or that the device is lost within `longest`.
struct ReopenPauses {
  Nanoseconds first = std::chrono::seconds(1);
  Nanoseconds longest = std::chrono::minutes(1);
};

struct CoreOptions {
  std::string repository;  // Triton's layout
  std::string scheduler = "reset";
  DeviceChoice device;
  ProfileOptions profile;
  ReopenPauses reopen;
  TraceRecorder* trace = nullptr;  // sees all requests; outlives the core; null: nobody does
};

/// Any thread may call any method. Open() loads every model of the repository; one that fails is
/// listed with its reason and disturbs nothing else. When the device is lost, what is in flight is
/// answered kUnavailable, as all that comes until the device is open again and the models are
/// loaded onto it; statistics start anew then, and traces end.
class InferenceCore {
 public:
  /// kNotFound / kInvalidArgument when the repository cannot be read or the scheduler is unknown;
  /// else the errors of OpenDevice().
  static Result<std::unique_ptr<InferenceCore>> Open(const CoreOptions& options);
  virtual ~InferenceCore() = default;

  virtual bool Ready() const = 0;  // loaded and not draining
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
  static std::span<const std::string_view> Schedulers();  // names of all
  /// Schedules from now on as the scheduler of that name (Schedulers()): requests in flight
  /// finish under the one before, later ones wait for them. `done` once, on any thread: kNotFound
  /// lists the names, kUnavailable while another switch is under way.
  virtual void SwitchScheduler(const std::string& name, std::function<void(Status)> done) = 0;
  virtual DeviceInfo device() const = 0;

  /// Validates, admits and returns; the answer comes through `callback`, errors too (also on this
  /// thread, before Infer returns). A full queue answers kUnavailable at once.
  virtual RequestHandle Infer(InferRequest request, InferCallback callback) = 0;
  /// For a client that went away; a handle that is no longer in flight is ignored.
  virtual void Cancel(RequestHandle handle) = 0;

  /// Refuses new requests, waits until those in flight are done or `until`, then cancels the rest.
  virtual void Drain(TimePoint until) = 0;
};

}  // namespace lagoon
