#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/edge/edge_listener.h"
#include "server/edge/inflate_queue.h"
#include "server/edge/request_body.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_conduct.h"
#include "server/grpc/grpc_exchange.h"
#include "server/grpc/http2_output.h"
#include "server/grpc/http2_session.h"
#include "server/io_pool.h"

namespace lagoon {

/// Bounds of the gRPC port.
struct GrpcLimits {
  std::size_t max_message_bytes = std::size_t{64} << 20;
  std::size_t max_header_bytes = std::size_t{16} << 10;
  std::uint32_t max_calls_per_connection = 256;
  std::chrono::milliseconds handshake_timeout{10'000};  // until a connection speaks HTTP/2
  std::chrono::milliseconds idle_timeout{75'000};       // of a connection without a call
  /// How long a message, an answer or the connection may stand still.
  std::chrono::milliseconds stall_timeout{60'000};
  /// How long a client that is asked whether it is there may take to answer.
  std::chrono::milliseconds ping_timeout{20'000};
};

class GrpcOwner : public EdgeListener {
 public:
  using EdgeListener::EdgeListener;
  /// A connection of this address was cut off, because of what it does. Any thread.
  virtual void OnCutOff(const boost::asio::ip::address& address, std::string_view why) = 0;
};

/// One client's connection. Everything runs on the socket's strand unless said otherwise. Shared by
/// its own asynchronous operations and by its calls.
class GrpcConnection final : public EdgeConnection,
                             private Http2Session::Events,
                             public std::enable_shared_from_this<GrpcConnection> {
 public:
  struct Context {
    GrpcHandler& handler;
    const GrpcLimits& limits;
    EdgeMemory memory;
    Strand slow;  // for what takes more than 1 ms
    InflateQueue& inflates;
    std::shared_ptr<GrpcOwner> owner;  // keeps the references above alive
  };

  GrpcConnection(Socket socket, Context context);
  ~GrpcConnection() override;

  // Any thread:
  void Start() override;
  /// Tells the client to send no further call. Closes after those that it has sent.
  void Drain() override;
  void Abort() override;
  void CheckDeadline(TimePoint now) override;
  const Strand& strand() const { return strand_; }

  // What the calls use:
  const Context& context() const { return context_; }
  Http2Session& session() { return *session_; }
  /// Deliver() to the call soon.
  void Ready(const std::shared_ptr<GrpcExchange>& exchange) { ready_.push_back(exchange); }
  /// Does what is to be done and sends what there is to send, now or when the present work is done.
  void Flush();
  /// Does `work`, and Flush() at its end.
  void Do(const std::function<void()>& work);
  /// Runs `taken` when the present work is done.
  void After(std::function<void()> taken) { after_.push_back(std::move(taken)); }
  /// A deadline of a call is at this time.
  void NotLaterThan(TimePoint time);
  void OnUse() { conduct_.OnUse(); }

 private:
  using ErrorCodeIo = boost::system::error_code;
  using StreamId = Http2Session::StreamId;

  void OnBegin(StreamId stream) override;
  void OnField(StreamId stream, std::string_view name, std::string_view value, bool first) override;
  void OnHeader(StreamId stream) override;
  void OnDataBegin(StreamId stream, std::size_t bytes) override;
  void OnData(StreamId stream, std::span<const std::byte> data) override;
  void OnEnd(StreamId stream) override;
  void OnClosed(StreamId stream) override;
  void OnRefused() override;
  void OnControl() override;
  void OnSettings() override { spoken_ = true; }
  void OnPong() override;
  Http2Session::Offer OnOffer(StreamId stream, std::size_t most) override;
  void OnTake(StreamId stream, std::size_t bytes, Http2Output& output) override;

  GrpcExchange* Find(StreamId stream);
  template <typename Work>
  void OnStrand(Work work);
  template <typename Work>
  void OrDrop(Work work);
  void Blame(std::string_view why);
  void Await();
  void OnReadable();
  bool ReadSome();
  void Receive(std::span<const std::byte> data);
  void Settle();
  bool SettleOnce();
  bool RunQueued();
  void SendOutput();
  void AwaitWritable();
  void OnDeadline();
  void CheckCalls(TimePoint now);
  void CheckClient(TimePoint now);
  void CutOff(std::string_view why);
  void Leave();
  void GoAway();
  void Linger();
  void Close();

  Socket socket_;
  const Strand strand_;
  const Context context_;
  std::unique_ptr<Http2Session> session_;
  std::map<StreamId, std::shared_ptr<GrpcExchange>> exchanges_;
  std::vector<std::shared_ptr<GrpcExchange>> ready_;
  std::vector<std::function<void()>> after_;
  std::vector<std::shared_ptr<GrpcExchange>> ended_;  // whose streams are closed
  Http2Output output_;
  bool working_ = false;  // within a function that settles at its end
  bool awaits_writable_ = false;
  bool going_ = false;         // the client was told to send no further call
  bool spoken_ = false;        // the client's first settings have come
  bool lingering_ = false;     // all is sent, the client has yet to close
  std::size_t discarded_ = 0;  // bytes that came meanwhile
  std::string_view fault_;     // why the connection must be cut off

  // The frame of data that is being received: its stream, and how many of its bytes are to come.
  StreamId data_stream_ = 0;
  std::size_t data_left_ = 0;

  std::atomic<TimePoint> deadline_{kNoDeadline};
  GrpcConduct conduct_;
  TimePoint began_, heard_, idle_since_, sent_;
  TimePoint pinged_ = kNoDeadline;   // a ping is on its way since then
  TimePoint noticed_ = kNoDeadline;  // the client was told that the server leaves soon
};

}  // namespace lagoon
