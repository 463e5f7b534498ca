#pragma once

// What a Python program works for: requests of its model, and the models that it calls.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "base/time.h"
#include "serving/core/request.h"
#include "serving/python/channel.h"

namespace lagoon {

/// A request that a program has. The thread of the program's instance calls all methods. The
/// request may have been answered meanwhile, as cancelled or late: what comes then is ignored.
class PythonJob {
 public:
  virtual ~PythonJob() = default;
  /// Differs from those of all other requests.
  virtual std::uint64_t id() const = 0;
  virtual TimePoint deadline() const = 0;
  /// The request has lowered its class.
  virtual bool lowered() const = 0;
  virtual bool answered() const = 0;
  /// Adds the request to a message: returns its object, and appends the bytes of its inputs.
  virtual nlohmann::json Describe(std::vector<std::span<const std::byte>>& parts) = 0;
  /// The program has the request.
  virtual void Begun(TimePoint taken, TimePoint sent) = 0;
  /// Answers with the message's tensors ("outputs") and "parameters", as the last time where the
  /// model is decoupled. An error: the request is not answered by that.
  virtual Status Answer(const ProgramMessage& message) = 0;
  /// An answer of a decoupled model before the last one: tensors and parameters, or an "error".
  /// `taken` as in AnswerStream::Give().
  virtual Status Give(const ProgramMessage& message, std::function<void()> taken) = 0;
  /// No more answers of a decoupled model come.
  virtual void End() = 0;
  /// Ends the request with the server's error about the program, behind the model's name.
  virtual void Fail(Error error) = 0;
  /// Ends the request with an error of the program, in its own words.
  virtual void Refuse(Error error) = 0;
  /// The deadline has passed.
  virtual void Expire() = 0;
  /// Frees what belongs to the client: the request is answered, and only the program still works on
  /// it. By the thread that calls Describe(), Answer() and Give().
  virtual void Forget() = 0;
};

/// The requests of a model that wait for a program. Any thread.
class PythonJobs {
 public:
  /// Answers requests that have waited too long. If `wants`, returns those that the next execution
  /// gets; empty: none now. `next`: when to ask again although none has come.
  virtual std::vector<std::shared_ptr<PythonJob>> Take(bool wants, TimePoint& next) = 0;
  /// The number of requests that wait for a program.
  virtual std::size_t Waiting() const = 0;

 protected:
  ~PythonJobs() = default;
};

/// The models that a program may call. Any thread.
class PythonCalls {
 public:
  /// As Inference::Infer. kInvalidArgument: the models would call each other in a circle.
  virtual RequestHandle Call(const std::string& caller, InferRequest request, TimePoint deadline,
                             InferCallback callback) = 0;
  virtual void CancelCall(RequestHandle call) = 0;

 protected:
  ~PythonCalls() = default;
};

/// How the programs of all models are run.
struct PythonOptions {
  std::string interpreter = "python3";
  PythonCalls* calls = nullptr;  // null: programs call no models. Outlives the programs
};

}  // namespace lagoon
