#pragma once

// One run of a LocalModel after the other, with the caller's tensors.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/time.h"
#include "local/local_model.h"
#include "local/run_code.h"
#include "program/parts.h"
#include "sched/job.h"

namespace lagoon {

/// A tensor in the caller's memory: dense, row-major, aligned to its elements. A tensor of kString
/// has StringElements (plan/strings.h).
struct RunTensor {
  DataType type = DataType::kFloat32;
  std::span<const std::int64_t> dims;  // copied
  void* data = nullptr;                // borrowed until the run has ended; not written for inputs
  std::size_t bytes = 0;               // of `data`
};

/// Why a run ended behind its due time: the largest part of its time.
enum class WhyLate : std::uint8_t {
  kNot,        // it did not, or has no due time
  kCaller,     // it was called too late
  kCompiling,  // a plan was made for its shapes
  kQueued,     // it waited for its turn
  kRevoking,   // better work took the device from it
  kComputing,  // its kernels took that long
  kHost,       // copies, wake-ups, and the work between two parts
};
std::string_view Name(WhyLate why);  // "not late", "caller", "compiling", ...

struct RunResult {
  RunCode code = RunCode::kOk;
  /// Stamps of the device's clock. Those that were never reached equal `finished`. Of a model in
  /// parts: of the first part up to `inputs_copied`, then of the last one.
  TimePoint called, posted, started, first_block, inputs_copied, computed, finished;
  TimePoint due = kNoDeadline;
  std::uint32_t revocations = 0;
  std::uint64_t resumed_blocks = 0;  // done before a revocation, and did not run again
  std::uint32_t parts = 0;           // jobs that ran
  Nanoseconds compiling{0};          // time that plans took which were made for this run
  WhyLate why = WhyLate::kNot;
};

/// Used by one thread at a time; only Cancel() may come from another. The model outlives the run.
/// Every call but the first two of a shape allocates nothing: SetInput() of other memory of the
/// same shape, SetOutput(), Start(), Sync(), Wait(), Cancel(), result(). Calls return a code;
/// message() says what the last one that failed was about.
///
///   run.SetInput(...) for all; run.Prepare(); run.SetOutput(...) with memory of OutputDims(); Sync
class Run final : private JobClient {
 public:
  /// `done` is called once per started run, on any thread, without a lock. Must be short and must
  /// not block; may call Start() of this run and of others; must not destroy the run or the model.
  /// What it throws is caught and logged.
  using Done = void (*)(void* argument, Run& run);

  explicit Run(LocalModel& model);
  /// Cancels the run and waits for its end.
  ~Run() override;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  LocalModel& model() const { return model_; }

  /// The class of this run; nothing: the model's. Takes effect at the next Prepare().
  void SetClass(std::optional<JobClass> job_class);
  /// Binds an input. Its memory is read during each run. kInvalidArgument: there is no such input,
  /// or type, rank, dims, size or alignment do not fit.
  RunCode SetInput(std::size_t input, const RunTensor& tensor);
  /// Binds an output. Null data: the run makes memory for it, as without this call. Dims are
  /// checked where they are given (not empty) and known. kInvalidArgument as above. An output whose
  /// dims are not known before the run cannot be bound: kUnimplemented (made_output() has it).
  RunCode SetOutput(std::size_t output, const RunTensor& tensor);

  /// Finds or makes the plan for the shapes, and for the contents that decide shapes, that are
  /// bound now: milliseconds if it is made. All inputs must be bound. The outputs' dims are known
  /// afterwards where dims_known().
  RunCode Prepare();
  /// Makes the memory of outputs that are not bound, so that the first run does not.
  RunCode Reserve();

  /// After Prepare(): whether the output's dims follow from the inputs' shapes. If not, they are
  /// known after each run, in memory of the run.
  bool dims_known(std::size_t output) const;
  /// The output's dims: after Prepare() if dims_known(), else after a run. Valid until the next
  /// call of Prepare(), Start() or Sync().
  std::span<const std::int64_t> OutputDims(std::size_t output) const;
  DataType OutputType(std::size_t output) const;
  /// After a run: the output, in the caller's memory or the run's own. Null: it has no elements or
  /// there is none. Valid as OutputDims().
  const void* OutputData(std::size_t output) const;
  std::size_t OutputBytes(std::size_t output) const;

  /// Runs and waits. `due`: when the run must have ended, else it ends as kDeadlineExceeded;
  /// kNoDeadline: never; nothing: the model's deadline from now on. Makes the plan if Prepare() was
  /// not called for the present shapes, and for later parts.
  RunCode Sync(std::optional<TimePoint> due = std::nullopt);
  /// The same without waiting. After an error `done` is not called. kInvalidArgument while this run
  /// is under way.
  RunCode Start(std::optional<TimePoint> due, Done done, void* argument);
  /// Waits for the end of a started run, and returns its code. kDeadlineExceeded with under_way():
  /// it is not over at `until`.
  RunCode Wait(TimePoint until = kNoDeadline);
  /// Any thread. The run ends as kCancelled soon, unless it ends otherwise before. No effect if it
  /// is not under way.
  void Cancel();
  bool under_way() const { return state_.load(std::memory_order_acquire) != kIdle; }

  /// Of the last run. Its code is kInvalidArgument while the run is under way.
  RunResult result() const;
  std::string message() const;

 private:
  enum State : std::uint32_t { kIdle = 0, kUnderWay = 1, kEnding = 2 };

  void Finished(const JobResult& result) override;

  LocalModel& model_;
  std::atomic<std::uint32_t> state_{kIdle};
};

}  // namespace lagoon
