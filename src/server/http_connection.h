#pragma once

#include <atomic>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <memory>
#include <optional>

#include "server/http_body.h"
#include "server/http_message.h"

namespace lagoon {

/// Counts the connections that exist, and says how far the end has come. Any thread.
class HttpConnectionOwner {
 public:
  virtual ~HttpConnectionOwner() = default;
  virtual void ConnectionBegan() = 0;
  virtual void ConnectionEnded() = 0;
  /// Every answer is the last one of its connection, and says so.
  virtual bool Draining() const = 0;
  /// Idle connections close.
  virtual bool Closing() const = 0;
};

/// One client's connection. Serves its requests one after the other; what the client pipelines
/// waits in a bounded buffer, then in the socket. Everything runs on the socket's strand unless
/// said otherwise. Shared by its own asynchronous operations, and by the answer that is still to
/// come.
class HttpConnection final : public HttpReply,
                             public MemoryHolder,
                             public std::enable_shared_from_this<HttpConnection> {
 public:
  struct Context {
    HttpHandler& handler;
    const HttpLimits& limits;
    EdgeMemory memory;
    std::shared_ptr<HttpConnectionOwner> owner;  // keeps the references above alive
  };

  HttpConnection(Socket socket, Context context);
  ~HttpConnection() override;

  // Any thread:
  void Start();
  /// The owner is Closing(): closes when idle, else after the answer in progress.
  void Drain();
  /// Closes now; a request in progress is cancelled.
  void Abort();
  /// Ends what took too long.
  void CheckDeadline(TimePoint now);
  void OnRevoked() override;

  void Send(HttpResponse response) override;
  void OnClientGone(std::function<void()> cancel) override { client_gone_ = std::move(cancel); }
  const Strand& executor() const override { return strand_; }

 private:
  enum class Phase : std::uint8_t {
    kIdle,
    kHeader,
    kBody,
    kHandling,
    kWriting,
    kLingering,
    kClosed
  };
  using HeaderParser = boost::beast::http::request_parser<boost::beast::http::empty_body>;
  using ChunkParser = boost::beast::http::request_parser<boost::beast::http::buffer_body>;
  using ErrorCodeIo = boost::system::error_code;

  void NextRequest();
  void ReadHeader();
  void ParseHeader();
  void OnHeader();
  std::size_t MaxBodyBytes() const;  // of the request that header_ holds, by its route
  void BeginBody();
  void SendContinue();
  void ReadBody();
  void ReadSizedBody(std::size_t bytes);
  bool Arrived(std::size_t bytes);  // false: no room for what has come
  void ReadChunks();
  void OnChunks(ErrorCodeIo error);
  void OnBody(ErrorCodeIo error, std::size_t bytes);
  void Handle();
  void WatchClient();
  void OnClientReadable();
  void ClientGone();
  void Refuse(unsigned status, std::string_view message);  // answers, then closes
  void RefuseTimeout();
  void RefuseForRoom();
  void ChargeAnswer();
  void Write(HttpResponse response);
  void OnWritten(ErrorCodeIo error);
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
  TimePoint transfer_began_;                      // of the body or the answer
  bool timed_out_ = false;
  bool keep_alive_ = true;
  bool is_head_ = false;       // the method is HEAD
  bool unread_input_ = false;  // the request's body was not read to its end

  boost::beast::flat_buffer
      input_;  // header and what the client sent beyond the request in progress
  std::optional<HeaderParser> header_;
  std::size_t header_bytes_ = 0;  // parsed so far
  std::optional<ChunkParser> chunks_;
  std::size_t piece_bytes_ = 0;  // what the chunks' parser may write next
  std::shared_ptr<HttpBody> body_;
  std::size_t max_body_bytes_ = 0;  // of this request
  std::size_t body_bytes_ = 0;      // declared, or come in chunks so far
  TimePoint first_byte_;
  TimePoint received_;
  std::uint64_t request_ = 0;  // tells a stale watch from the present one
  std::function<void()> client_gone_;

  std::string head_;
  HttpResponse response_;
  std::optional<MemoryCharge> answer_charge_;
};

}  // namespace lagoon
