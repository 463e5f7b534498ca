#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "serving/python/channel.h"
#include "serving/python/job.h"
#include "serving/python/process.h"

namespace lagoon {

/// One Python program of a model, and the thread that has it.
///
/// - A program that ends, or that breaks the rules of the channel, is started again after a pause
///   that doubles each time, up to `longest_pause`. What it had is answered kInternal.
/// - An execution that takes longer than `limit` ends the program, with the same effect.
/// - A request whose deadline passes is answered then; its execution goes on.
class PythonInstance {
 public:
  struct Options {
    std::string model;    // for messages, and as the caller of others
    nlohmann::json load;  // the message that the program gets first
    StartProgram start;
    Nanoseconds start_limit = std::chrono::minutes(10);  // until initialize() has returned
    Nanoseconds limit = std::chrono::minutes(5);         // of an execution
    Nanoseconds max_unread = std::chrono::seconds(10);   // a client reads none of eight answers
    /// As max_unread, but while other requests wait for the end of its execution. The shorter of
    /// the two counts.
    Nanoseconds max_unread_before_others = std::chrono::seconds(1);
    Nanoseconds first_pause = std::chrono::milliseconds(100);
    Nanoseconds longest_pause = std::chrono::seconds(30);
    bool decoupled = false;
    PythonCalls* calls = nullptr;
  };

  explicit PythonInstance(Options options);
  /// Stops.
  ~PythonInstance();
  PythonInstance(const PythonInstance&) = delete;
  PythonInstance& operator=(const PythonInstance&) = delete;

  /// Starts the program. Called once.
  void Start();
  /// Waits until the program is ready. Returns the object of its answer. An error tells why it is
  /// not ready: of the program, of the interpreter, or of the limit.
  Result<nlohmann::json> AwaitReady();
  /// From now on takes requests. After AwaitReady() has succeeded, and once.
  void Serve(PythonJobs& jobs);
  /// Ends the program, which gets a moment for its finalize(). Requests that it has are answered
  /// kUnavailable. `jobs` is not used any more.
  void Stop();
  /// Requests have come, or one that it has was cancelled. Any thread.
  void Wake();

 private:
  struct Held;
  struct Call;
  class Inbox;
  class CallStream;

  void Run(const std::stop_token& stop);
  Result<nlohmann::json> Open(const std::stop_token& stop);
  Status AwaitEnd();
  Status Step(PythonJobs& jobs);
  Status Execute(const std::vector<std::shared_ptr<PythonJob>>& jobs);
  TimePoint Look(const PythonJobs& jobs);
  Status Tell();
  Status Handle(const ProgramMessage& message);
  Status HandleAnswer(const ProgramMessage& message);
  Status Give(const ProgramMessage& message, std::uint64_t id, Held& held);
  Status HandleDone(const ProgramMessage& message);
  Status HandleCall(const ProgramMessage& message);
  void TakeAnswer(std::uint64_t number, bool leaves);
  void Release(std::uint64_t id);
  void Lose(const Error& why);
  void CancelCalls();
  TimePoint DeadlineOfCalls() const;
  bool AllLowered() const;
  void Pause(PythonJobs& jobs, const std::stop_token& stop);

  const Options options_;
  const std::shared_ptr<Inbox> inbox_;
  std::atomic<PythonJobs*> jobs_{nullptr};

  // Used by the thread only.
  std::unique_ptr<ProgramProcess> process_;  // null: it is to be started
  std::unique_ptr<ProgramChannel> channel_;
  std::map<std::uint64_t, Held> held_;  // by PythonJob::id()
  std::map<std::uint64_t, Call> calls_;
  bool executing_ = false;
  TimePoint execution_ends_ = kNoDeadline;
  Nanoseconds pause_;
  TimePoint opened_{};

  Mutex mutex_;
  CondVar started_;
  std::optional<Result<nlohmann::json>> first_ GUARDED_BY(mutex_);  // of the first start
  std::jthread thread_;                                             // last member
};

}  // namespace lagoon
