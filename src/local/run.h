#pragma once

// One run of a LocalModel after the other, with the caller's tensors.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "local/local_model.h"
#include "local/run_code.h"
#include "plan/tensor.h"
#include "program/parts.h"
#include "sched/caller/caller_run.h"
#include "sched/job.h"

namespace lagoon {

/// A tensor in the caller's memory: dense, row-major, aligned to its elements. A tensor of kString
/// has StringElements (plan/strings.h).
struct RunTensor {
  DataType type = DataType::kFloat32;
  std::span<const std::int64_t> dims;  // copied
  void* data = nullptr;                // borrowed until the run has ended; of inputs only read
  std::size_t bytes = 0;               // of `data`
};

/// Why a run ended behind its due time: the largest part of its time.
enum class WhyLate : std::uint8_t {
  kNot,        // it did not, or it has no due time
  kCaller,     // it was started behind its due time
  kCompiling,  // a plan was made for its shapes
  kQueued,     // it waited for its turn
  kRevoking,   // better work took the device from it
  kComputing,  // its kernels took that long
  kHost,       // cores taken away, copies, wake-ups, and the work between two parts
};
std::string_view Name(WhyLate why);  // "not late", "caller", "compiling", ...

/// Why a call for a run is refused; of static storage, as the path of a run makes no text.
struct RunRefusal {
  RunCode code;
  const char* why;
};

struct RunResult {
  RunCode code = RunCode::kInvalidArgument;  // of a run that was never started
  /// Stamps of the device's clock. Those of stages that were never reached equal `finished`. Of a
  /// model in parts: of the first part up to `inputs_copied`, then of the last one.
  TimePoint called, posted, started, first_block, inputs_copied, computed, finished;
  TimePoint due = kNoDeadline;
  std::uint32_t revocations = 0;
  std::uint64_t resumed_blocks = 0;  // done before a revocation, and did not run again
  std::uint32_t parts = 0;           // jobs that ran
  Nanoseconds compiling{0};          // time that plans took which were made for this run
  RanBefore behind;                  // runs that had the device instead
  /// For which the operating system took cores away, summed over workers (JobResult::stolen).
  Nanoseconds stolen{0};
  WhyLate why = WhyLate::kNot;
};

/// Used by one thread at a time; only Cancel() may come from another. The model outlives the run.
/// Calls that bind, prepare or start wait until Done of the last run has returned, unless they come
/// from within that Done. From within Done of another run they cannot wait: kInvalidArgument.
/// Once a run of the same shapes has ended, these calls allocate nothing: SetInput() and
/// SetOutput() of other memory for the same shapes, Start(), Sync(), Wait(), Cancel(), result().
/// Exceptions: models in parts, and outputs whose dims are not known before the run.
///
/// Calls return a code; message() says what the last one that failed was about.
///
///   run.SetInput(...) for all; run.Prepare(); run.SetOutput(...) with memory for OutputDims();
///   run.Sync()
class Run final : private JobClient {
 public:
  /// Called once per started run, without a lock, when the run has ended, on any thread: also by
  /// Start() before it returns, and by calls for other runs. Must be short and must not block; may
  /// call Start() of this run and of others, result() and the outputs; must not destroy the run or
  /// the model. Once Done has started this run again, that run may end, and call Done, before this
  /// call returns. What Done throws is caught and logged.
  using Done = void (*)(void* argument, Run& run);

  explicit Run(LocalModel& model);
  /// Cancels the run and waits for its end, its Done included.
  ~Run() override;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  LocalModel& model() const { return model_; }

  /// The class of this run from the next Prepare(), Start() or Sync() on; nothing: the model's.
  void SetClass(std::optional<JobClass> job_class) { own_class_ = job_class; }
  /// Binds an input. Its memory is read during each run. kInvalidArgument: there is no such input,
  /// or type, rank, dims, size or alignment do not fit.
  RunCode SetInput(std::size_t input, const RunTensor& tensor);
  /// Binds an output. Null data: the run makes the memory, as without this call. kInvalidArgument
  /// as above, as far as it is known; the rest is checked when a run starts: dims, where they are
  /// given (not empty), and the size. An output whose dims are not known before the run cannot be
  /// bound: then a run does not start, with kUnimplemented.
  RunCode SetOutput(std::size_t output, const RunTensor& tensor);

  /// Finds or makes the plan for the shapes, and for the contents that decide shapes, that are
  /// bound now: milliseconds if it is made. All inputs must be bound. Afterwards the outputs' dims
  /// are known where dims_known().
  RunCode Prepare();
  /// After Prepare(): makes the memory of outputs that are not bound, so that the first run does
  /// not.
  RunCode Reserve();

  /// After Prepare(): whether the output's dims follow from the shapes of the inputs. If not, they
  /// are known after each run, in memory of the run.
  bool dims_known(std::size_t output) const { return outputs_[output].known; }
  /// Whether OutputDims() has the dims now.
  bool has_dims(std::size_t output) const {
    return outputs_[output].known || outputs_[output].present;
  }
  /// After Prepare() if dims_known(), else after a run. Valid until the next call that sets,
  /// prepares or starts. Empty for an output that there is not.
  std::span<const std::int64_t> OutputDims(std::size_t output) const;
  DataType OutputType(std::size_t output) const { return outputs_[output].type; }
  /// After a run: the output, in the caller's memory or the run's own. Null: it has no elements, or
  /// the run did not end as kOk. Valid as OutputDims().
  const void* OutputData(std::size_t output) const { return outputs_[output].at; }
  std::size_t OutputBytes(std::size_t output) const { return outputs_[output].size; }
  std::size_t output_count() const { return outputs_.size(); }

  /// Runs and waits. `due`: when the run must have ended, else it ends as kDeadlineExceeded;
  /// kNoDeadline: never; nothing: the model's deadline from now on. Makes the plan if Prepare() was
  /// not called for what is bound, and those of later parts. Not from within Done.
  /// `cancelled`: null, or a flag that another thread sets before it calls Cancel(), so that this
  /// counts although it comes before Sync().
  RunCode Sync(std::optional<TimePoint> due = std::nullopt,
               const std::atomic<bool>* cancelled = nullptr);
  /// The same without waiting; where the plan is to be made, it waits for that. After an error
  /// `done` is not called. kInvalidArgument while this run is under way. Null: no call.
  RunCode Start(std::optional<TimePoint> due, Done done = nullptr, void* argument = nullptr);
  /// Waits for the end of a started run, its Done included, and returns its code. kDeadlineExceeded
  /// and under_way(): it is not over at `until`. Not from within Done.
  RunCode Wait(TimePoint until = kNoDeadline);
  /// Any thread. The run ends as kCancelled soon, unless it ends otherwise before. No effect if no
  /// run is under way.
  void Cancel();
  bool under_way() const { return (state_.load(std::memory_order_acquire) & kUnderWay) != 0; }

  /// Of the last run that has ended.
  const RunResult& result() const { return result_; }
  /// Of the last call that failed, or of the last run.
  RunCode code() const { return error_ ? CodeOf(error_->code) : result_.code; }
  std::string message() const;

  /// Waits as above. Null: what is bound may change, and a run may start; else why not.
  const RunRefusal* AwaitQuiet();
  /// Whether the run is over, and its Done has returned.
  bool quiet() const;

  /// Whether the calling thread calls Done of this run, or of any run, now.
  bool in_done() const;
  static bool AnyInDone();

 private:
  static constexpr std::uint32_t kUnderWay = 1;
  static constexpr std::uint32_t kSleeps = 2;  // a thread sleeps until the run is over

  struct Output {
    // As the caller has bound it.
    void* bound = nullptr;
    std::size_t bound_bytes = 0;
    DataType bound_type = DataType::kFloat32;
    std::optional<Dims> bound_dims;
    // Of the plan, or of the last run.
    DataType type = DataType::kFloat32;
    bool known = false;    // from the plan
    bool present = false;  // of the last run, and dims are those
    Dims dims;
    const void* at = nullptr;
    std::size_t size = 0;
  };
  struct Memory {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0;
  };
  enum class Next : std::uint8_t { kEnded, kAnotherPart };

  template <typename F>
  RunCode Guarded(F&& work);
  RunCode Refuse(Error error);
  Error Invalid(const std::string& what) const;
  // run.cc: what is bound and prepared.
  Status CheckRank(const std::string& label, const RunTensor& tensor) const;
  Status CheckTensor(const std::string& label, const DeclaredTensor& declared,
                     const RunTensor& tensor) const;
  bool Prepared() const;
  Status FindPlan();
  void ForgetOutputs();
  void NoteOutputs();
  Status CheckOutputs() const;
  Status BindPart();
  void* MemoryFor(std::size_t bytes);
  // run_flow.cc: from the start to the end.
  void Finished(const JobResult& result) override;
  Status BecomeQuiet();
  std::optional<bool> MayChangeWithinDone() const;
  Status Begin(std::optional<TimePoint> due);
  Next EndPart(const JobResult& job);
  Status TakeOutputs(const JobResult& job);
  Status FindNextPart();
  void GoOn();
  void End(RunCode code, const JobResult* job, std::optional<Error> error = std::nullopt);
  void EndBy(const JobResult* job, Error error);
  void Tell();
  CallerOptions Caller() const;
  WhyLate Why(const RunResult& result) const;
  std::string Reason() const;

  LocalModel& model_;
  std::optional<JobClass> own_class_;
  // What is bound: by input of the model, by output of the model.
  std::vector<Dims> dims_;
  std::vector<std::span<const std::byte>> contents_;
  std::vector<bool> bound_;
  std::vector<Output> outputs_;
  // What is prepared.
  bool shapes_changed_ = true;
  JobClass job_class_ = JobClass::kBestEffort;
  LocalModel::BoundPlan first_;
  /// Contents that decided the plan, by input.
  std::vector<std::pair<std::size_t, std::vector<std::byte>>> deciding_;
  std::atomic<bool> one_part_{true};
  // Of the run under way.
  LocalModel::BoundPlan part_;
  std::shared_ptr<ServedPlan> before_;  // the part before; null: `part_` is the first one
  std::optional<std::vector<HostTensor>> inputs_;  // of a later part
  QueuePlan* slot_for_ = nullptr;                  // what `slot_` is prepared for
  PartRun part_run_;
  std::vector<std::shared_ptr<const MadeTensor>> made_;  // of all parts
  std::vector<Memory> memory_;                           // kept for the next run
  std::size_t memory_used_ = 0;
  RunResult running_;
  Done done_ = nullptr;
  void* argument_ = nullptr;
  // Of the last run.
  RunResult result_;
  std::optional<Error> error_;  // of the last call that failed
  std::atomic<bool> cancelled_{false};
  std::atomic<std::uint32_t> state_{0};
  std::atomic<std::uint32_t> calling_{0};  // calls of Done that have not returned
  std::atomic<std::uint64_t> starts_{0};   // of Start(), without those that failed
  std::unique_ptr<CallerRun> slot_;        // not freed in a forked child
};

}  // namespace lagoon
