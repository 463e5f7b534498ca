#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "server/grpc/http2_output.h"

struct nghttp2_session;

namespace lagoon {

/// The frames of one connection of HTTP/2, at the server: nghttp2 behind an interface of C++. It
/// reads no socket and writes none. One thread at a time.
class Http2Session {
 public:
  using StreamId = std::int32_t;
  using Fields = std::vector<std::pair<std::string_view, std::string_view>>;

  struct Limits {
    std::uint32_t max_streams = 256;  // at a time
    std::uint32_t max_frame_bytes = 1U << 20;
    std::uint32_t max_header_bytes = 16U << 10;  // told to the client; the owner enforces it
    std::int32_t stream_window = 4 << 20;        // bytes that a client may send ahead
    std::int32_t connection_window = 16 << 20;
  };

  /// What can be sent of a stream now.
  struct Offer {
    std::size_t bytes = 0;
    bool last = false;  // these bytes and the trailer (SendTrailer()) end the stream
  };

  /// What the client does. Called within Receive() and Produce(); an exception ends the connection.
  class Events {
   public:
    virtual ~Events() = default;
    /// The header of a new stream begins, its fields and its end follow.
    virtual void OnBegin(StreamId stream) = 0;
    /// A field of a header or a trailer. `first`: of the header that has begun the stream.
    virtual void OnField(StreamId stream, std::string_view name, std::string_view value,
                         bool first) = 0;
    virtual void OnHeader(StreamId stream) = 0;
    /// So many bytes of data follow in one frame without padding.
    virtual void OnDataBegin(StreamId stream, std::size_t bytes) = 0;
    /// The owner must Consume() the bytes some time.
    virtual void OnData(StreamId stream, std::span<const std::byte> data) = 0;
    /// The client sends no more on this stream.
    virtual void OnEnd(StreamId stream) = 0;
    /// Both sides have ended the stream, or one has reset it.
    virtual void OnClosed(StreamId stream) = 0;
    /// A stream that is not served: there are too many, or it breaks the protocol.
    virtual void OnRefused() = 0;
    /// A frame that carries no call on: a ping, settings, a change of a window, no data.
    virtual void OnControl() = 0;
    virtual void OnSettings() = 0;
    /// The answer to a ping.
    virtual void OnPong() = 0;

    /// At most `most` bytes; {0, false}: nothing before Resume().
    virtual Offer OnOffer(StreamId stream, std::size_t most) = 0;
    /// Adds what was offered to `output`.
    virtual void OnTake(StreamId stream, std::size_t bytes, Http2Output& output) = 0;
  };

  /// `events` is borrowed. Throws std::bad_alloc.
  Http2Session(Events& events, const Limits& limits);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  /// kBroken: what has come is no HTTP/2, an event has thrown, or memory has run out. kFlood: it is
  /// an attack. Both: the connection must be closed at once.
  enum class Verdict : std::uint8_t { kGood, kBroken, kFlood };
  /// Reads what the client has sent.
  Verdict Receive(std::span<const std::byte> data);
  /// Adds frames to `output` until it has `most` bytes or more. Returns false if the connection
  /// must be closed at once.
  bool Produce(Http2Output& output, std::size_t most);
  /// Nothing will be received or sent any more: close.
  bool Done() const;
  /// Frames that wait to be produced, without those of data.
  std::size_t Waiting() const;

  // These throw std::bad_alloc, and do nothing for a stream that is closed.

  /// The header of the answer. `last`: it is the whole answer.
  void SendHeader(StreamId stream, const Fields& fields, bool last);
  /// Call it within OnOffer() before the last offer.
  void SendTrailer(StreamId stream, const Fields& fields);
  /// There is something to offer again.
  void Resume(StreamId stream);
  void Reset(StreamId stream);
  /// Bytes of OnData() that the client may send anew: on the connection, on the stream.
  void ConsumeOfConnection(std::size_t bytes);
  void ConsumeOfStream(StreamId stream, std::size_t bytes);
  void Ping();
  /// Asks the client to open no further streams, with a ping behind that, so that Events::OnPong()
  /// follows. Those that it opens are served until GoAway().
  void GoAwaySoon();
  /// Tells the client that its streams from now on are not served. Those that it has opened are.
  void GoAway();

 private:
  struct Callbacks;

  Events& events_;
  nghttp2_session* session_ = nullptr;
  Http2Output* output_ = nullptr;  // within Produce()
  std::size_t most_ = 0;           // of Produce()
};

}  // namespace lagoon
