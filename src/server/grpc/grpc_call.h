#pragma once

#include <grpcpp/support/status.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "base/time.h"
#include "base/unfilled.h"
#include "server/io_pool.h"
#include "server/memory_budget.h"
#include "server/telemetry/traceparent.h"

namespace lagoon {

/// A message to send: the parts one after the other, in each the text before the data.
struct GrpcBytes {
  struct Part {
    std::string text;
    UnfilledBytes data = {};
  };
  std::vector<Part> parts;
  /// Counts the memory until the message is sent. Null: it is not counted.
  std::shared_ptr<MemoryCharge> charge = {};

  std::size_t size() const {
    std::size_t bytes = 0;
    for (const Part& part : parts) bytes += part.text.size() + part.data.size();
    return bytes;
  }
};

/// A message that has arrived, inflated if it was compressed.
struct GrpcArrived {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // keeps `bytes` alive
  TimePoint received;                 // its last byte
};

/// What the header of a call says.
struct GrpcHead {
  std::string method;  // "/inference.GRPCInferenceService/ModelInfer"
  TraceContext trace;
  std::string tenant;    // InferRequest::tenant_of_header
  TimePoint first_byte;  // of the header
  TimePoint deadline = kNoDeadline;
};

/// Metadata at the end of a call, by name.
using GrpcTrailers = std::vector<std::pair<std::string, std::string>>;

/// One call, as its method sees it. Everything runs on strand() unless said otherwise.
class GrpcCall {
 public:
  virtual ~GrpcCall() = default;
  virtual const GrpcHead& head() const = 0;
  /// The strand of the connection. Any thread.
  virtual const Strand& strand() const = 0;
  /// For the memory of an answer. Any thread.
  virtual std::shared_ptr<MemoryCharge> NewCharge() = 0;
  /// No message is delivered until Go(). The client may send some more, up to its window.
  virtual void Pause() = 0;
  virtual void Go() = 0;
  /// Sends a message. `taken` is called once, after the present work: the message is on its way, or
  /// never will be.
  virtual void Write(GrpcBytes message, std::function<void()> taken) = 0;
  /// Ends the call when what was written is sent. What follows has no effect.
  virtual void Finish(const grpc::Status& status, const GrpcTrailers& trailers = {}) = 0;
  /// Ends the call at once, as if the client had.
  virtual void Abandon() = 0;

  /// Does `work`; if it throws (memory ran out), the call fails. On the strand.
  static void OrFail(GrpcCall& call, const std::function<void()>& work);
  /// The same on the strand. Any thread, which holds no reference to the call afterwards.
  template <typename Work>
  static void Post(std::shared_ptr<GrpcCall> call, Work work) {
    const Strand& strand = call->strand();
    PostTo(strand, call,
           [&to = *call, work = std::move(work)]() mutable { OrAbandon(to, [&work] { work(); }); });
  }
  /// Has a strand run `work`, or ends the call where there is no memory for that.
  template <typename Work>
  static void PostTo(const Strand& strand, std::shared_ptr<GrpcCall> call, Work work) {
    try {
      PostSurely(strand, [call, work = std::move(work)]() mutable { work(); });
    } catch (const std::bad_alloc&) {
      UntilMemorySuffices([&] { PostSurely(call->strand(), [call] { call->Abandon(); }); });
    }
  }

 protected:
  /// Does `work`, and sends then what it has written.
  virtual void Do(const std::function<void()>& work) = 0;

 private:
  static void OrAbandon(GrpcCall& call, const std::function<void()>& work);
};

/// What is to be done with a message that was read.
struct GrpcReading {
  std::function<void()> then;       // on the strand
  std::function<void()> slow = {};  // before `then`: takes more than 1 ms, on any thread; or empty
};

/// The method of one call. Runs on the call's strand unless said otherwise, and is released when
/// the call has ended.
class GrpcMethod {
 public:
  virtual ~GrpcMethod() = default;
  /// Whether it takes more than 1 ms to Read() such a message.
  virtual bool IsLong(std::span<const std::byte> message) const { return message.size() > kLong; }
  /// Reads a message. On any thread, one message at a time.
  virtual GrpcReading Read(GrpcArrived message) = 0;
  /// The client sends no further message.
  virtual void OnEnd() = 0;
  /// The call has ended before Finish(): the client has left, or its deadline has passed.
  virtual void OnGone() = 0;

  static constexpr std::size_t kLong = std::size_t{256} << 10;
};

/// The methods of a server. Called for several connections at once.
class GrpcHandler {
 public:
  virtual ~GrpcHandler() = default;
  /// Null: Finish() was called.
  virtual std::shared_ptr<GrpcMethod> Begin(const std::shared_ptr<GrpcCall>& call) = 0;
};

}  // namespace lagoon
