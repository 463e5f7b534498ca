#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "server/grpc/grpc_codec.h"
#include "server/grpc/grpc_message.h"
#include "server/grpc/grpc_service.grpc.pb.h"
#include "server/io_pool.h"
#include "serving/core/inference.h"

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
/// An answer with an error does not end the call. Keeps itself alive until gRPC is done
/// with the call. All state belongs to a strand; what gRPC and the core call only posts to it.
///
/// Bounds: while kMostInFlight requests are not answered, or answers are not written, the call
/// reads no further request. A client that takes no answer for kMostWriteTime loses the call.
class GrpcStreamCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                             public std::enable_shared_from_this<GrpcStreamCall> {
 public:
  static constexpr std::size_t kMostInFlight = 64;
  static constexpr std::chrono::seconds kMostWriteTime{60};

  /// All are borrowed, and used until gRPC is done with the call.
  struct Server {
    Inference& core;
    IoPool& pool;
    InferMessagePool& messages;
    GrpcStreamCalls& calls;
    const SharedRegions& regions;
  };

  /// Begins to read. gRPC owns the result.
  static GrpcStreamCall* Start(const Server& server, grpc::CallbackServerContext& context);
  /// Ends the call when its requests are answered. Any thread.
  void EndSoon();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  class Answers;
  struct Outgoing {
    grpc::ByteBuffer message;
    std::uint64_t request = 0;    // that it ends; 0: none
    std::function<void()> taken;  // empty: nothing waits for it
  };
  struct InFlight {
    RequestHandle handle{};
    std::string id;
    EdgeStamps stamps;
    bool stages = false, empty_final = false;
    OutputRegions regions;  // outputs that go to shared memory
    std::shared_ptr<Answers> answers;
    std::optional<Outgoing> last;  // waits for the answers to earlier requests
    bool sent = false;             // `last` is in outgoing_, or was
  };
  /// A message that was read.
  struct Arrived {
    std::string id;
    Result<GrpcInfer> parsed;
    TimePoint at;
  };

  GrpcStreamCall(const Server& server, grpc::CallbackServerContext& context);

  template <typename Work>
  void Post(Work work);
  Arrived Parse();
  // On the strand:
  void Submit(Arrived arrived);
  void Read();
  void Give(std::uint64_t request, InferResponse answer, std::function<void()> taken);
  void End(std::uint64_t request, Result<InferResponse> result);
  void Send(Outgoing outgoing);
  void SendInOrder();
  Result<grpc::ByteBuffer> Render(InFlight& request, InferResponse answer, bool last) const;
  void WriteNext();
  void Written(bool ok);
  void Cancelled();
  void MaybeFinish();

  const Server server_;
  grpc::CallbackServerContext& context_;
  const std::shared_ptr<void> hold_;  // the pool outlives the call
  const Strand strand_;
  std::shared_ptr<GrpcStreamCall> self_;  // until OnDone()
  grpc::ByteBuffer incoming_;             // gRPC's while reading_

  boost::asio::steady_timer slow_;
  std::map<std::uint64_t, InFlight> in_flight_;
  std::deque<Outgoing> outgoing_;  // the first one is being written if writing_
  std::uint64_t last_request_ = 0;
  bool reading_ = true, writing_ = false;
  bool no_more_ = false;    // requests: the client has sent all, or the server stops
  bool cancelled_ = false;  // by the client, or because it takes no answers
  bool ending_ = false;     // the server stops
  bool finished_ = false;
};

}  // namespace lagoon
