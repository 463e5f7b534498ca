#pragma once

#include <atomic>
#include <boost/asio/dispatch.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/log.h"
#include "server/edge/edge_listener.h"
#include "server/edge/inflate_queue.h"
#include "server/edge/request_body.h"
#include "server/http/http_message.h"
#include "server/http/http_origin.h"
#include "server/http/low_lane.h"

namespace lagoon {

/// One client's connection. Serves its requests one after the other; requests that the client
/// pipelines wait in a bounded buffer, then in the socket. Everything runs on the socket's strand
/// unless said otherwise. Shared by its own asynchronous operations, and by the answer that is
/// still to come.
class HttpConnection final : public HttpReply,
                             public EdgeConnection,
                             public MemoryHolder,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  struct Context {
    HttpHandler& handler;
    const HttpLimits& limits;
    const HttpHosts& hosts;
    EdgeMemory memory;
    InflateQueue& inflates;
    std::shared_ptr<ConnectionOwner> owner;  // keeps the references above alive
    LowLane* low = nullptr;                  // null: threads of the pool send all answers
  };

  HttpConnection(Socket socket, Context context);
  ~HttpConnection() override;

  // Any thread:
  void Start() override;
  /// An idle connection closes after 100 ms, as a request may be on its way; a busy one closes
  /// after the present answer.
  void Drain() override;
  void Abort() override;
  /// Ends the present phase if its deadline has passed.
  void CheckDeadline(TimePoint now) override;
  void OnRevoked() override;

  void Send(HttpResponse response) override;
  void SendPart(HttpPart part) override;
  void OnClientGone(std::function<void()> cancel) override { client_gone_ = std::move(cancel); }
  std::shared_ptr<MemoryCharge> NewCharge() override;
  const Strand& executor() const override { return strand_; }

 private:
  /// How long a request takes before its client is watched: a watch takes some 20 us of the edges.
  /// The sweep of deadlines adds up to its period.
  static constexpr std::chrono::milliseconds kWatchDelay{10};

  enum class Phase : std::uint8_t {
    kIdle,
    kHeader,
    kBody,
    kHandling,
    kWriting,
    kStreaming,  // an answer in parts has begun
    kLingering,
    kClosed
  };
  using HeaderParser = boost::beast::http::request_parser<boost::beast::http::empty_body>;
  using ChunkParser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;
  using ErrorCodeIo = boost::system::error_code;

  template <typename Sent>
  void OnStrand(Sent sent, void (*use)(HttpConnection&, std::type_identity_t<Sent>&&));
  template <typename Work>
  void OrDrop(Work work);
  void NextRequest();
  void ReadHeader();
  void ParseHeader();
  void OnHeader();
  std::size_t MaxBodyBytes() const;  // for the request in header_, by its route
  void BeginBody();
  void SendContinue();
  void ReadBody();
  void ReadSizedBody(std::size_t bytes);
  bool Arrived(std::size_t bytes);  // false: no room for the bytes that arrived
  void ReadChunks();
  void OnChunks(ErrorCodeIo error);
  void OnBody(ErrorCodeIo error, std::size_t bytes);
  const HttpRequestHeader& Head() const;  // of the request that has arrived
  // http_connection_body.cc:
  void BeginInflating();
  void OnInflated(Result<InflateQueue::Message> inflated);
  void Handle();
  void WatchClient();
  void EndWatch();
  void OnClientReadable();
  void OnLongHandling();
  void Beat();
  void ClientGone();
  void Refuse(unsigned status, std::string_view message);  // answers, then closes
  void RefuseTimeout();
  void RefuseForRoom();
  void ChargeAnswer();
  void Write(HttpResponse response);
  void EndAnswer();
  void OnWritten(ErrorCodeIo error);
  // http_connection_stream.cc:
  void AddPart(HttpPart part);
  void WritePart();
  void OnPartWritten(ErrorCodeIo error);
  void DropParts();
  // http_connection_answer.cc:
  void WriteNow();
  void WriteRest();
  std::vector<iovec> RestOfAnswer();
  bool GoesLow() const;
  void WriteLow();
  void OnPiece();
  bool AfterPiece(void (HttpConnection::*next)());
  void OnWriteDeadline();
  void Linger();
  void DiscardInput();
  void Close();
  void Reset();
  void GiveUpMemory();
  void OnDeadline();
  void SetDeadline(Phase phase, Nanoseconds in);
  void BeginTransfer(Phase phase);
  void MoveDeadline(std::size_t bytes);

  Socket socket_;
  const Strand strand_;
  const Context context_;
  Phase phase_ = Phase::kIdle;
  std::atomic<TimePoint> deadline_{kNoDeadline};  // written on the strand, read by CheckDeadline
  TimePoint transfer_began_;                      // when the body's or answer's transfer began
  bool timed_out_ = false;
  bool keep_alive_ = true;
  bool is_head_ = false;       // the method is HEAD
  bool unread_input_ = false;  // the request's body was not read to its end
  bool beats_ = false;         // kBeatField
  bool in_handler_ = false;    // Handle() is under way
  bool watching_ = false;      // WatchClient() was called for this request

  /// The header, and bytes that the client sent beyond the request in progress.
  boost::beast::flat_buffer input_;
  std::optional<HeaderParser> header_;
  std::size_t header_bytes_ = 0;  // parsed so far
  bool line_ended_ = false;       // the last parsed byte of the header ended a line
  std::optional<ChunkParser> chunks_;
  std::size_t piece_bytes_ = 0;  // how many bytes the chunk parser may write next
  std::shared_ptr<RequestBody> body_;
  std::size_t max_body_bytes_ = 0;   // limit for this request
  std::size_t body_bytes_ = 0;       // bytes of the body: as declared, or arrived in chunks so far
  std::shared_ptr<void> inflating_;  // null: the queue inflates no body of this connection
  TimePoint first_byte_;
  TimePoint received_;
  std::uint64_t request_ = 0;  // number of the request: identifies watches of earlier requests
  std::function<void()> client_gone_;

  std::deque<HttpPart> parts_;  // the first one is being written if writing_part_
  bool writing_part_ = false, chunked_ = false;
  std::string head_;  // of an answer; the bytes of the part that is being written
  HttpResponse response_;
  std::size_t written_ = 0;                          // of both, without a write in progress
  std::shared_ptr<LowLane::Piece> piece_;            // on the lane; null: none
  void (HttpConnection::*after_piece_)() = nullptr;  // what to do when it is back; null: go on
  std::shared_ptr<MemoryCharge> answer_charge_;
};

/// Has the strand use what a thread has sent. Where memory runs out, the client gets the answer or
/// the end of its connection.
template <typename Sent>
void HttpConnection::OnStrand(Sent sent,
                              void (*use)(HttpConnection&, std::type_identity_t<Sent>&&)) {
  boost::asio::dispatch(strand_,
                        Patient([self = shared_from_this(), sent = std::move(sent), use]() mutable {
                          self->OrDrop([&] { use(*self, std::move(sent)); });
                        }));
}

/// Does `work` on an answer. If it throws (memory ran out), the connection ends: else the watch of
/// the client would keep it open.
template <typename Work>
void HttpConnection::OrDrop(Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    spdlog::error("server: an answer was dropped: {}", error.what());
    ClientGone();
  }
}

}  // namespace lagoon
