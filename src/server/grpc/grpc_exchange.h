#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/edge/request_body.h"
#include "server/grpc/grpc_call.h"
#include "server/grpc/grpc_head.h"
#include "server/grpc/http2_session.h"

namespace lagoon {

class GrpcConnection;

/// One call of a connection: takes the messages out of the stream's data, and puts answers into
/// frames. Everything runs on the connection's strand unless said otherwise. The connection owns it
/// while the stream is open.
class GrpcExchange final : public GrpcCall,
                           public MemoryHolder,
                           public std::enable_shared_from_this<GrpcExchange> {
 public:
  using StreamId = Http2Session::StreamId;

  GrpcExchange(std::shared_ptr<GrpcConnection> connection, StreamId stream, TimePoint now);
  ~GrpcExchange() override;

  // What the connection calls.

  void OnField(std::string_view name, std::string_view value);
  /// A field of the header that follows the messages. It means nothing, and takes time.
  void OnTrailer(std::string_view name, std::string_view value) { header_.Count(name, value); }
  std::size_t header_bytes() const { return header_.bytes(); }
  void OnHeader();
  void OnData(std::span<const std::byte> data);
  void OnEnd() { ended_ = true; }
  /// Where the next bytes of the present message belong, at most `most`: a read from the socket may
  /// put them there at once.
  std::span<std::byte> Room(std::size_t most);
  /// Keeps Room() alive.
  std::shared_ptr<const void> room_owner() const { return body_; }
  /// Gives the method what has arrived.
  void Deliver();
  Http2Session::Offer OnOffer(std::size_t most);
  void OnTake(std::size_t bytes, Http2Output& output);
  /// The stream is closed, or the connection. End() follows.
  void OnClosed() { closed_ = true; }
  /// Tells the method, and frees what the call holds.
  void End();
  /// Acts on what has taken too long.
  void CheckDeadline(TimePoint now);
  /// When the client's deadline passes; kNoDeadline: it has none, or the call has finished.
  TimePoint deadline() const { return finished_ ? kNoDeadline : head().deadline; }
  /// Whether the client has the end of the call, or will have it from what was produced.
  bool answered() const { return trailed_; }
  StreamId stream() const { return stream_; }

  const GrpcHead& head() const override { return header_.head(); }
  const Strand& strand() const override;
  std::shared_ptr<MemoryCharge> NewCharge() override;
  void Pause() override { paused_ = true; }
  void Go() override;
  void Write(GrpcBytes message, std::function<void()> taken) override;
  void Finish(const grpc::Status& status, const GrpcTrailers& trailers) override;
  void Abandon() override;
  void OnRevoked() override;

 protected:
  void Do(const std::function<void()>& work) override;

 private:
  struct Outgoing {
    std::shared_ptr<const GrpcBytes> message;
    std::size_t part = 0;    // the part that is sent now
    std::size_t offset = 0;  // bytes of the part that are sent
    std::function<void()> taken;
  };
  struct Whole {
    std::shared_ptr<RequestBody> body;
    std::size_t bytes = 0;
    bool compressed = false;
    TimePoint received;
  };

  bool Holds() const;
  void Hold(std::span<const std::byte> data);
  void Take(std::span<const std::byte>& data);
  void TakePrefix(std::span<const std::byte>& data);
  void BeginMessage();
  void TakeBody(std::span<const std::byte>& data);
  void EndMessage();
  void Refuse(const grpc::Status& status);
  void RefuseForRoom();
  void FailWith(const grpc::Status& status);
  void GiveUpMemory();
  void DeliverNext();
  void Read(Whole whole);
  void Inflate(Whole whole);
  void ReadBeside(std::function<GrpcReading()> read);
  static void ReadHere(const std::shared_ptr<GrpcExchange>& self,
                       std::function<GrpcReading()> read);
  void Consume(std::size_t bytes);
  void TakeHeld();
  void FreeHeld();
  void SendHeader(bool last);

  const std::shared_ptr<GrpcConnection> connection_;
  const StreamId stream_;
  GrpcHeadReader header_;
  std::shared_ptr<GrpcMethod> method_;
  std::optional<grpc::Status> refusal_;  // the answer, in place of the method's
  bool begun_ = false;                   // the method
  bool ended_ = false, told_end_ = false;
  bool paused_ = false;
  bool reading_ = false;  // a message is read on another thread

  std::array<std::uint8_t, 5> prefix_{};  // whether the message is compressed, and its length
  std::size_t prefix_bytes_ = 0;
  std::shared_ptr<RequestBody> body_;  // of the present message
  std::size_t body_bytes_ = 0, body_size_ = 0;
  std::deque<Whole> wholes_;  // messages that were not delivered yet, at most kMostWhole
  // What the client has sent beyond them. It may send no more than its window.
  std::vector<std::byte> held_;
  std::size_t held_used_ = 0;
  std::unique_ptr<MemoryCharge> held_charge_;

  std::deque<Outgoing> outgoing_;
  bool header_sent_ = false;
  bool finished_ = false;  // Finish() was called
  bool trailed_ = false;
  bool closed_ = false;
  GrpcTrailers trailers_;  // of Finish()
  TimePoint moved_;        // when a byte of the message or of the answer last moved
};

}  // namespace lagoon
