#pragma once

// Jobs with logic on the host: a program loads what it needs once, and runs a C++20 coroutine for
// each request, which launches kernels, copies and whole models on streams of its own and awaits
// them (Paella 5.2, Figure 8). docs/guide/jobs.md shows how to write one.

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status.h"
#include "device/device.h"
#include "plan/tensor.h"
#include "sched/programs/waitlist.h"

namespace lagoon {

class JobContext;

/// Lets coroutines of one program wait for each other. Owned by the program, and used by its
/// coroutines only.
class JobSignal {
 public:
  /// Resumes all coroutines that wait for the signal now (JobContext::Wait).
  void Notify() { ++count_; }
  std::uint64_t count() const { return count_; }

 private:
  std::uint64_t count_ = 0;
};

/// What a coroutine can await: one operation, a stream, all that it has issued, room for another
/// answer, or a signal.
class JobWait {
 public:
  enum class Kind : std::uint8_t { kOperation, kStream, kAll, kRoom, kSignal };

  JobWait(JobContext& job, Kind kind, std::uint64_t index)
      : job_(&job), kind_(kind), index_(index) {}
  JobWait(JobContext& job, const JobSignal& signal)
      : job_(&job), kind_(Kind::kSignal), index_(signal.count()), signal_(&signal) {}

  Kind kind() const { return kind_; }
  std::uint64_t index() const { return index_; }  // number of the operation or stream
  bool signalled() const { return signal_->count() != index_; }  // kSignal only

  // For the compiler.
  inline bool await_ready() const;
  inline void await_suspend(std::coroutine_handle<> handle) const;
  void await_resume() const {}

 private:
  JobContext* job_;
  Kind kind_;
  std::uint64_t index_;
  const JobSignal* signal_ = nullptr;
};

/// What JobProgram::Run returns. The program's host owns it; it starts suspended.
class JobTask {
 public:
  struct promise_type {
    JobTask get_return_object() {
      return JobTask(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_value(Status status) { result = std::move(status); }
    void unhandled_exception() { exception = std::current_exception(); }
    /// Only what a JobContext hands out can be awaited: nothing else would resume the coroutine.
    JobWait await_transform(JobWait wait) { return wait; }

    Status result;
    std::exception_ptr exception;
  };

  JobTask() = default;
  JobTask(JobTask&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  JobTask& operator=(JobTask&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~JobTask() {
    if (handle_) handle_.destroy();
  }

  std::coroutine_handle<promise_type> handle() const { return handle_; }

 private:
  explicit JobTask(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

/// A stream of one job, created by its JobContext. No stream of the device is taken, so that a job
/// may have many (up to JobContext::kMaxStreams). The order is that of CUDA's streams: see
/// Waitlist.
using JobStream = Waitlist::Stream;

/// A place in a stream of a job for which other streams can wait (cudaEvent_t).
using JobEvent = Waitlist::Event;

/// Another model of the repository, as a program sees it.
struct JobModel {
  std::uint32_t index = 0;  // in the list of models that the program may run
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  /// By output: the input in whose place the model writes it, as decoders do with their caches.
  std::vector<std::optional<std::size_t>> replaces;
  /// Measured time of one run alone on the device; 0: not known.
  Nanoseconds standalone{0};
};

/// A model's tensors on the device, for one program alone (JobSetup::MakeInstance). Runs one at a
/// time.
class JobInstance {
 public:
  virtual ~JobInstance() = default;
  /// The memory of an input on the device: zeros before the first run. Not while a run is issued
  /// and not complete.
  virtual std::byte* input(std::size_t index) = 0;
  /// Sets bytes of an input to zero. Returns false, and changes nothing, while a run is issued and
  /// not complete, or if the bytes do not lie in the input. An input that an output replaces
  /// (JobModel::replaces) takes memory of the machine only where it was written since the start or
  /// since Clear(), by pages: so a program may keep large caches of which it uses little.
  virtual bool Clear(std::size_t index, std::size_t offset, std::size_t bytes) = 0;
};

/// One request of a program, while its coroutine runs. Only for the coroutine, from the thread that
/// resumes it. Operations start as soon as the order of their streams and the scheduler allow; they
/// need not be awaited. Memory that an operation reads or writes must stay valid until the
/// operation is complete. The request's tensors and memory from Allocate() stay valid to the end of
/// the job; a local variable does so only if the coroutine awaits the operation before it leaves
/// the variable's scope.
///
/// A call that is wrong (an unknown stream, too many operations) fails the job, as does an
/// operation that does not complete because the request was cancelled, expired, or the device was
/// lost: the coroutine is not resumed any more but destroyed where it awaits, and the request is
/// answered with the reason.
class JobContext {
 public:
  static constexpr std::size_t kMaxStreams = 32;
  static constexpr std::size_t kMaxEvents = 1024;
  /// Most operations of one job that may be issued and not complete.
  static constexpr std::size_t kMaxOperations = 1024;
  /// Most answers of one job that may be sent while the client has not taken them.
  static constexpr std::uint32_t kMaxSent = 8;

  virtual ~JobContext() = default;

  /// The request's tensors in the order of the program's signature, dense and row-major.
  virtual std::span<const std::byte> input(std::size_t index) const = 0;
  virtual std::span<std::byte> output(std::size_t index) = 0;
  template <typename T>
  std::span<const T> Input(std::size_t index) const {
    const std::span<const std::byte> bytes = input(index);
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  template <typename T>
  std::span<T> Output(std::size_t index) {
    const std::span<std::byte> bytes = output(index);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  /// Device memory that is valid until the end of the job, 64-byte aligned. kResourceExhausted when
  /// the device has no room for it.
  virtual Result<std::byte*> Allocate(std::size_t bytes) = 0;
  virtual JobStream CreateStream(StreamKind kind) = 0;

  /// Events between streams, as CUDA's: Record() marks what the stream has so far, and what is
  /// issued on `stream` after WaitFor() waits for the event's last Record(). An event that was not
  /// recorded holds nothing up. Both count as operations until they are complete.
  virtual JobEvent CreateEvent() = 0;
  virtual void Record(JobEvent event, JobStream stream = Waitlist::kDefaultStream) = 0;
  virtual void WaitFor(JobEvent event, JobStream stream = Waitlist::kDefaultStream) = 0;

  /// Runs the body of a kernel of the program `blocks` times. `args`: the argument struct, copied.
  virtual JobWait Launch(KernelHandle kernel, std::span<const std::byte> args, std::uint32_t blocks,
                         JobStream stream) = 0;
  template <typename Args>
  JobWait Launch(KernelHandle kernel, const Args& args, std::uint32_t blocks,
                 JobStream stream = Waitlist::kDefaultStream) {
    static_assert(std::is_trivially_copyable_v<Args>);
    return Launch(kernel, std::as_bytes(std::span(&args, 1)), blocks, stream);
  }
  virtual JobWait CopyToDevice(std::byte* to, const void* from, std::size_t bytes,
                               JobStream stream = Waitlist::kDefaultStream) = 0;
  /// Sets `bytes` bytes of device memory to `value`.
  virtual JobWait Fill(std::byte* to, std::uint8_t value, std::size_t bytes,
                       JobStream stream = Waitlist::kDefaultStream) = 0;
  virtual JobWait CopyToHost(void* to, const std::byte* from, std::size_t bytes,
                             JobStream stream = Waitlist::kDefaultStream) = 0;
  /// Runs a model once. The tensors are in host memory, in the order of `model`.
  virtual JobWait Run(const JobModel& model, std::span<const void* const> inputs,
                      std::span<void* const> outputs,
                      JobStream stream = Waitlist::kDefaultStream) = 0;

  /// The same on an instance of the program. Null for an output: it is not copied. Null for an
  /// input that an output replaces: the bytes that lie in its place, those of that output of the
  /// last run. A run that did not end may have changed them.
  virtual JobWait Run(JobInstance& instance, std::span<const void* const> inputs,
                      std::span<void* const> outputs,
                      JobStream stream = Waitlist::kDefaultStream) = 0;

  /// Sends the outputs, as they are now, as an answer: for models that the configuration declares
  /// as decoupled, whose clients get any number of answers and no last one. Await it: the coroutine
  /// continues when there is room for another answer, so that it pauses for a client that does not
  /// read.
  virtual JobWait Send() = 0;
  /// Waits until another coroutine notifies the signal. Every coroutine that can be ended (by its
  /// client, by its deadline) while others rely on it must notify them in a destructor.
  JobWait Wait(const JobSignal& signal) { return {*this, signal}; }

  /// Waits for all operations of a stream, or of the job, that were issued so far.
  JobWait Sync(JobStream stream) { return {*this, JobWait::Kind::kStream, stream}; }
  JobWait All() { return {*this, JobWait::Kind::kAll, 0}; }

 private:
  friend class JobWait;
  /// Whether what `wait` waits for is complete, so that the coroutine need not be suspended.
  virtual bool Ready(const JobWait& wait) = 0;
  virtual void SuspendUntil(const JobWait& wait) = 0;
};

inline bool JobWait::await_ready() const { return job_->Ready(*this); }
inline void JobWait::await_suspend(std::coroutine_handle<> /*handle*/) const {
  job_->SuspendUntil(*this);
}

/// What JobProgram::Init may ask for.
class JobSetup {
 public:
  virtual ~JobSetup() = default;
  /// See device/block.h for the contract of a body. spec.block.time is the expected time of a
  /// block, used for padding; 0: not known, and the kernel is never used as padding.
  virtual Result<KernelHandle> LoadKernel(const std::string& name, Body body,
                                          const KernelSpec& spec) = 0;
  /// The model that the configuration's parameter "lagoon.model.ROLE" names. The result is valid as
  /// long as the program lives.
  virtual Result<const JobModel*> FindModel(const std::string& role) = 0;
  /// An instance of the model, which lives as long as the program. kResourceExhausted when the
  /// device has no room for it.
  virtual Result<JobInstance*> MakeInstance(const JobModel& model) = 0;
  /// The configuration's parameter of this name, if it is there.
  virtual std::optional<std::string> Parameter(const std::string& name) const = 0;
};

/// A user's job definition.
class JobProgram {
 public:
  virtual ~JobProgram() = default;
  /// Called once, before the first request. An error makes the model unavailable.
  virtual Status Init(JobSetup& setup) = 0;
  /// Called for each request. Several requests run at a time, interleaved on one thread. `job`
  /// outlives the coroutine. An error, or an exception, fails the request.
  virtual JobTask Run(JobContext& job) = 0;
};

/// Raised with every change of this file that is not compatible with compiled libraries.
inline constexpr std::uint32_t kJobProgramAbi = 6;

}  // namespace lagoon

/// Use once in a shared library. The library then serves `Program`, a class derived from
/// JobProgram.
#define LAGOON_JOB_PROGRAM(Program)                                                      \
  static_assert(std::is_base_of_v<::lagoon::JobProgram, Program>);                       \
  extern "C" std::uint32_t lagoon_job_program_abi() { return ::lagoon::kJobProgramAbi; } \
  extern "C" ::lagoon::JobProgram* lagoon_job_program_create() { return new Program; }
