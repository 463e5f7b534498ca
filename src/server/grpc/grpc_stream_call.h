#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "server/grpc/grpc_infer_call.h"

namespace lagoon {

class GrpcStreamCall;

/// The ModelStreamInfer calls in progress. Any thread.
class GrpcStreamCalls {
 public:
  /// Returns false if the server stops; the call must be refused then.
  bool Add(GrpcStreamCall& call);
  void Remove(GrpcStreamCall& call);
  /// Lets every call end when its requests are answered, and refuses new calls.
  void End();

 private:
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::map<GrpcStreamCall*, std::weak_ptr<GrpcStreamCall>> calls_ GUARDED_BY(mutex_);
};

/// One ModelStreamInfer call: any number of requests. Their answers leave in the order of the
/// requests, as Triton's do; those of decoupled models leave as they come, and none waits for them.
/// An answer with an error does not end the call.
///
/// Bounds: while kMostInFlight requests are not answered, or answers are not written, the call
/// reads no further request.
class GrpcStreamCall final : public GrpcMethod,
                             public std::enable_shared_from_this<GrpcStreamCall> {
 public:
  static constexpr std::size_t kMostInFlight = 64;

  /// Null: the server stops, and the call is finished. `calls` is borrowed.
  static std::shared_ptr<GrpcStreamCall> Begin(const GrpcInferParts& parts, GrpcStreamCalls& calls,
                                               std::shared_ptr<GrpcCall> call);
  ~GrpcStreamCall() override;
  /// Ends the call when its requests are answered. Any thread.
  void EndSoon();

  bool IsLong(std::span<const std::byte> message) const override;
  GrpcReading Read(GrpcArrived message) override;
  void OnEnd() override;
  void OnGone() override;

 private:
  struct Answer;
  class Answers;
  struct Outgoing {
    GrpcBytes message;
    std::uint64_t request = 0;    // that it ends; 0: none
    std::function<void()> taken;  // empty: nothing waits for it
  };
  struct InFlight {
    RequestHandle handle{};
    std::string id;
    EdgeStamps stamps;
    bool stages = false, empty_final = false;
    std::shared_ptr<MemoryCharge> charge;  // of the answers
    std::shared_ptr<Answers> answers;
    std::optional<Outgoing> last;  // waits for the answers to earlier requests
    bool sent = false;             // `last` was sent
  };

  GrpcStreamCall(const GrpcInferParts& parts, GrpcStreamCalls& calls,
                 std::shared_ptr<GrpcCall> call);

  template <typename Work>
  void Post(Work work);
  // On the strand:
  void Submit(GrpcAsked arrived);
  void PauseOrGo();
  void Give(std::uint64_t request, Result<Answer> answer, std::function<void()> taken);
  void End(std::uint64_t request, Result<Answer> result);
  void Send(Outgoing outgoing);
  void SendInOrder();
  Result<GrpcBytes> Render(InFlight& request, Answer written, bool last) const;
  void Written(std::uint64_t request, const std::function<void()>& taken);
  void MaybeFinish();

  const GrpcInferParts parts_;
  GrpcStreamCalls& calls_;
  const std::shared_ptr<void> hold_;  // the pool outlives the call, which is destroyed before
  const std::shared_ptr<GrpcCall> call_;

  std::map<std::uint64_t, InFlight> in_flight_;
  std::size_t unwritten_ = 0;  // messages
  std::uint64_t last_request_ = 0;
  bool paused_ = false;
  bool no_more_ = false;    // requests: the client has sent all, or the server stops
  bool cancelled_ = false;  // by the client, or because it takes no answers
  bool ending_ = false;     // the server stops
  bool finished_ = false;
};

}  // namespace lagoon
