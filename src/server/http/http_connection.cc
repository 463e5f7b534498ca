#include "server/http/http_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "server/descriptors.h"
#include "server/http/http_request_rules.h"

namespace lagoon {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

// Most bytes of one read of a header. No larger, because the read may include the begin of a body,
// which is then copied.
constexpr std::size_t kHeaderChunk = 16 * 1024;
// Bytes that a client may send ahead of its answer before the connection stops reading.
constexpr std::size_t kMaxAhead = 32 * 1024;
constexpr std::chrono::seconds kLingerTime{2};
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
constexpr std::string_view kBeat = "HTTP/1.1 102 Processing\r\n\r\n";

// Most bytes that one call reads or writes; a body's bytes are charged between two calls.
constexpr std::size_t kPiece = std::size_t{1} << 20;
// Sizes of a chunked body's buffer: this one, then kMoreChunks, then the limit. A buffer takes
// memory only for the pages that were written to; copying the first two takes 0.1 ms.
constexpr std::size_t kFirstChunks = std::size_t{64} << 10;
constexpr std::size_t kMoreChunks = std::size_t{1} << 20;
// How long an idle connection stays open for a request that is on its way, when the server stops.
constexpr std::chrono::milliseconds kLastRequestTime{100};

}  // namespace

HttpConnection::HttpConnection(Socket socket, Context context)
    : socket_(std::move(socket)),
      strand_(socket_.get_executor()),
      context_(std::move(context)),
      input_(kMaxAhead + kHeaderChunk) {
  context_.owner->ConnectionBegan();
}

HttpConnection::~HttpConnection() { context_.owner->ConnectionEnded(); }

void HttpConnection::Start() {
  PostSurely(strand_, [self = shared_from_this()] {
    ErrorCodeIo ignored;
    PrepareConnection(self->socket_.native_handle());
    self->socket_.non_blocking(true, ignored);
    self->NextRequest();
  });
}

void HttpConnection::Drain() {
  PostSurely(strand_, [self = shared_from_this()] {
    if (self->phase_ == Phase::kIdle) self->SetDeadline(Phase::kIdle, kLastRequestTime);
  });
}

void HttpConnection::Abort() {
  PostSurely(strand_, [self = shared_from_this()] { self->ClientGone(); });
}

void HttpConnection::CheckDeadline(TimePoint now) {
  if (now < deadline_.load(std::memory_order_relaxed)) return;
  PostSurely(strand_, [self = shared_from_this()] { self->OnDeadline(); });
}

void HttpConnection::OnDeadline() {
  if (Now() < deadline_.load(std::memory_order_relaxed)) return;  // was moved meanwhile
  ErrorCodeIo ignored;
  switch (phase_) {
    case Phase::kHeader:
    case Phase::kBody:
      timed_out_ = true;  // the aborted read sends the answer
      socket_.cancel(ignored);
      return;
    case Phase::kIdle:
      socket_.cancel(ignored);  // closes, unless the read has received bytes already
      return;
    case Phase::kWriting:
      return OnWriteDeadline();
    case Phase::kStreaming:
      return ClientGone();
    case Phase::kHandling:
      return OnLongHandling();
    default:
      return Close();
  }
}

void HttpConnection::OnRevoked() {
  PostSurely(strand_, [self = shared_from_this()] { self->GiveUpMemory(); });
}

void HttpConnection::GiveUpMemory() {
  if (phase_ == Phase::kBody && body_->charge().revoked()) {
    ErrorCodeIo ignored;
    socket_.cancel(ignored);  // the aborted read sends the answer
  } else if (phase_ == Phase::kWriting && answer_charge_->revoked()) {
    spdlog::debug("server: a client that took its answer too slowly was cut off: memory ran short");
    Reset();
  }
}

void HttpConnection::SetDeadline(Phase phase, Nanoseconds in) {
  phase_ = phase;
  deadline_.store(Now() + in, std::memory_order_relaxed);
}

void HttpConnection::BeginTransfer(Phase phase) {
  phase_ = phase;
  transfer_began_ = Now();
  MoveDeadline(0);
}

// `bytes`: moved so far. The declared size does not count, so that a client gains no time by
// declaring a large body.
void HttpConnection::MoveDeadline(std::size_t bytes) {
  const HttpLimits& limits = context_.limits;
  const std::chrono::duration<double> seconds(static_cast<double>(bytes) /
                                              static_cast<double>(limits.min_bytes_per_second));
  deadline_.store(
      transfer_began_ + limits.transfer_timeout + std::chrono::duration_cast<Nanoseconds>(seconds),
      std::memory_order_relaxed);
}

// --- reading a request ---

void HttpConnection::NextRequest() {
  ++request_;
  client_gone_ = nullptr;
  body_.reset();
  body_bytes_ = 0;
  chunks_.reset();
  is_head_ = false;
  header_bytes_ = 0;
  line_ended_ = false;
  inflating_.reset();
  header_.emplace();
  header_->header_limit(static_cast<std::uint32_t>(context_.limits.max_header_bytes));
  // RefuseHeader() checks the limit instead, with the values in its message.
  header_->body_limit(std::numeric_limits<std::uint64_t>::max());
  SetDeadline(Phase::kIdle, context_.owner->Closing() ? Nanoseconds(kLastRequestTime)
                                                      : Nanoseconds(context_.limits.idle_timeout));
  if (input_.size() == 0) return ReadHeader();
  first_byte_ = Now();
  SetDeadline(Phase::kHeader, context_.limits.header_timeout);
  ParseHeader();
}

void HttpConnection::ReadHeader() {
  socket_.async_read_some(input_.prepare(kHeaderChunk), [self = shared_from_this()](
                                                            ErrorCodeIo error, std::size_t bytes) {
    if (self->phase_ == Phase::kClosed) return;
    if (self->timed_out_) return self->RefuseTimeout();
    if (error) return self->Close();
    self->input_.commit(bytes);
    if (self->phase_ == Phase::kIdle) {
      self->first_byte_ = Now();
      self->SetDeadline(Phase::kHeader, self->context_.limits.header_timeout);
    }
    self->ParseHeader();
  });
}

void HttpConnection::ParseHeader() {
  ErrorCodeIo error;
  const std::size_t parsed = header_->put(input_.data(), error);
  if (HasFoldedLine({static_cast<const char*>(input_.data().data()), parsed}, line_ended_)) {
    return Refuse(400, "malformed HTTP request: a line of the header is folded");
  }
  input_.consume(parsed);
  header_bytes_ += parsed;
  // The parser's own limit holds for one call of put(), but a header may come in several pieces.
  const std::size_t more = header_->is_header_done() ? 0 : input_.size();
  if (error == http::error::header_limit ||
      header_bytes_ + more > context_.limits.max_header_bytes) {
    return Refuse(431, fmt::format("the request's header has more than {} bytes",
                                   context_.limits.max_header_bytes));
  }
  if (error && error != http::error::need_more) {
    return Refuse(400, fmt::format("malformed HTTP request: {}", error.message()));
  }
  if (header_->is_header_done()) return OnHeader();
  ReadHeader();
}

void HttpConnection::OnHeader() {
  const auto& head = header_->get();
  keep_alive_ = head.keep_alive();
  is_head_ = head.method() == http::verb::head;
  beats_ = head.version() >= 11 && head.count({kBeatField.data(), kBeatField.size()}) > 0;
  std::optional<std::uint64_t> length;
  if (header_->content_length()) length = *header_->content_length();
  const bool has_body = header_->chunked() || length.value_or(0) > 0;
  max_body_bytes_ = has_body ? MaxBodyBytes() : context_.limits.max_body_bytes;
  auto refusal = RefuseHeader(head.base(), length, max_body_bytes_);
  if (!refusal) {
    const std::string_view target = OriginForm({head.target().data(), head.target().size()});
    const bool changes = context_.handler.Changes(head.method(), target);
    refusal = RefuseForeign(head.base(), context_.hosts, changes);
  }
  if (refusal) return Refuse(refusal->status, refusal->message);
  if (has_body) return BeginBody();
  received_ = Now();
  Handle();
}

void HttpConnection::BeginBody() {
  unread_input_ = true;
  BeginTransfer(Phase::kBody);
  body_ = std::make_shared<RequestBody>(context_.memory, weak_from_this(), transfer_began_);
  body_bytes_ = header_->chunked() ? 0 : *header_->content_length();
  if (!body_->Reserve(body_bytes_, 0)) return RefuseForRoom();
  const auto expect = header_->get()[http::field::expect];
  if (!expect.empty() && input_.size() == 0) return SendContinue();
  ReadBody();
}

void HttpConnection::SendContinue() {
  net::async_write(socket_, net::buffer(kContinue.data(), kContinue.size()),
                   [self = shared_from_this()](ErrorCodeIo error, std::size_t) {
                     if (self->phase_ == Phase::kClosed) return;
                     if (error) return self->Close();
                     self->ReadBody();
                   });
}

void HttpConnection::ReadBody() {
  if (!header_->chunked()) return ReadSizedBody(body_bytes_);
  chunks_.emplace(std::move(*header_));
  chunks_->body_limit(max_body_bytes_);
  ReadChunks();
}

// Charges the bytes that have arrived, and gives the client time for more.
bool HttpConnection::Arrived(std::size_t bytes) {
  MoveDeadline(bytes);
  return body_->charge().Grow(bytes, Now());
}

void HttpConnection::ReadSizedBody(std::size_t bytes) {
  // Read directly into the buffer that the device will read from: a parser would copy once more.
  const std::size_t here = std::min(bytes, input_.size());
  std::memcpy(body_->data(), input_.data().data(), here);
  input_.consume(here);
  if (here == bytes) return OnBody({}, bytes);
  net::async_read(
      socket_, net::buffer(body_->data() + here, bytes - here),
      [self = shared_from_this(), here](ErrorCodeIo error, std::size_t more) {
        return error || !self->body_ || !self->Arrived(here + more) ? 0 : kPiece;
      },
      [self = shared_from_this(), here](ErrorCodeIo error, std::size_t more) {
        self->OnBody(error, here + more);
      });
}

void HttpConnection::ReadChunks() {
  const std::size_t limit = max_body_bytes_;
  if (body_bytes_ == body_->capacity()) {
    const std::size_t more = body_bytes_ < kFirstChunks  ? kFirstChunks
                             : body_bytes_ < kMoreChunks ? kMoreChunks
                                                         : limit;
    if (!body_->Reserve(std::min(more, limit), body_bytes_)) return RefuseForRoom();
  }
  // Charged before it arrives, as the parser does not stop within a piece. So pieces are small.
  piece_bytes_ = std::min(kFirstChunks, body_->capacity() - body_bytes_);
  if (!Arrived(body_bytes_ + piece_bytes_)) return RefuseForRoom();
  auto& piece = chunks_->get().body();
  piece.data = body_->data() + body_bytes_;
  piece.size = piece_bytes_;
  piece.more = true;
  http::async_read(
      socket_, input_, *chunks_,
      [self = shared_from_this()](ErrorCodeIo error, std::size_t) { self->OnChunks(error); });
}

void HttpConnection::OnChunks(ErrorCodeIo error) {
  if (phase_ == Phase::kClosed) return;
  body_bytes_ += piece_bytes_ - chunks_->get().body().size;
  const bool full = body_bytes_ == max_body_bytes_;
  if (error == http::error::body_limit || (error == http::error::need_buffer && full)) {
    return Refuse(
        413, fmt::format("the request's body has more than {} bytes, the limit", max_body_bytes_));
  }
  if (error == http::error::need_buffer && !timed_out_) return ReadChunks();
  // Malformed chunks can be answered; errors of the socket cannot.
  if (error && error.category() == make_error_code(http::error::bad_chunk).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return Refuse(400, fmt::format("malformed chunked body: {}", error.message()));
  }
  OnBody(error, body_bytes_);
}

void HttpConnection::OnBody(ErrorCodeIo error, std::size_t bytes) {
  if (phase_ == Phase::kClosed) return;
  if (timed_out_) return RefuseTimeout();
  const bool revoked = error == net::error::operation_aborted;
  if (error && !revoked) return Close();
  // The last bytes may have arrived without room in the budget.
  if (revoked || bytes < body_bytes_ || !Arrived(bytes) || !body_->charge().Pin()) {
    return RefuseForRoom();
  }
  unread_input_ = false;
  const auto encoding = Head()[http::field::content_encoding];
  if (!IsIdentity({encoding.data(), encoding.size()})) {
    return OrDrop([this] { BeginInflating(); });
  }
  received_ = Now();
  Handle();
}

// --- handling it ---

void HttpConnection::Handle() {
  const HttpRequestHeader& head = Head();
  SetDeadline(Phase::kHandling, kWatchDelay);  // the job's own deadline counts now
  const std::string_view target = OriginForm({head.target().data(), head.target().size()});
  std::span<const std::byte> body;
  if (body_) body = {body_->data(), body_bytes_};
  // HEAD is handled like GET; Write() leaves the body out.
  const HttpRequest request{is_head_ ? http::verb::get : head.method(),
                            target,
                            head,
                            body,
                            body_,
                            first_byte_,
                            received_};
  in_handler_ = true;
  try {
    context_.handler.Handle(request, shared_from_this());
    in_handler_ = false;
  } catch (const std::exception& e) {
    in_handler_ = false;
    spdlog::error("server: handling a request failed: {}", e.what());
    // Refuse() closes the connection: if the handler still sends an answer, that must not become
    // the answer to the next request.
    if (phase_ == Phase::kHandling) return Refuse(500, "the server could not handle the request");
    if (phase_ == Phase::kStreaming) return ClientGone();
  }
  body_.reset();  // the handler holds the bytes as long as it needs them
}

/// The client is watched from now on, and told that the server works on the request.
void HttpConnection::OnLongHandling() {
  SetDeadline(Phase::kHandling, kBeatPeriod);
  if (!beats_) deadline_.store(kNoDeadline, std::memory_order_relaxed);
  watching_ ? Beat() : WatchClient();
}

void HttpConnection::EndWatch() {
  if (!std::exchange(watching_, false)) return;
  ErrorCodeIo ignored;
  socket_.cancel(ignored);
}

void HttpConnection::WatchClient() {
  watching_ = true;
  socket_.async_wait(
      Socket::wait_read, [self = shared_from_this(), request = request_](ErrorCodeIo error) {
        if (error || self->request_ != request) return;
        const bool busy = self->phase_ == Phase::kHandling || self->phase_ == Phase::kStreaming;
        if (busy) self->OnClientReadable();
      });
}

void HttpConnection::OnClientReadable() {
  // The rest waits in the socket. The client is not watched any more until its answer is written.
  if (input_.size() >= kMaxAhead) return;
  ErrorCodeIo error;
  const std::size_t bytes = socket_.read_some(input_.prepare(kMaxAhead - input_.size()), error);
  if (error == net::error::would_block) return WatchClient();
  if (error) return ClientGone();
  input_.commit(bytes);
  WatchClient();
}

/// Tells a server in front that this one works on the request.
void HttpConnection::Beat() {
  if (!beats_) return;
  ErrorCodeIo error;
  const std::size_t sent = socket_.write_some(net::buffer(kBeat.data(), kBeat.size()), error);
  SetDeadline(Phase::kHandling, kBeatPeriod);
  if (error == net::error::would_block) return;  // then it need not be told
  // A part of a beat would spoil the answer.
  if (error || sent < kBeat.size()) ClientGone();
}

void HttpConnection::ClientGone() {
  const bool busy = phase_ == Phase::kHandling || phase_ == Phase::kStreaming;
  const auto cancel = busy ? std::move(client_gone_) : nullptr;
  client_gone_ = nullptr;
  Close();
  if (cancel) cancel();
}

// --- answering ---

void HttpConnection::Refuse(unsigned status, std::string_view message) {
  if (phase_ == Phase::kClosed) return;
  keep_alive_ = false;
  unread_input_ = true;  // the rest of the request, and pipelined requests after it
  phase_ = Phase::kHandling;
  body_.reset();
  Write(HttpResponse::Failure(status, message));
}

void HttpConnection::RefuseForRoom() {
  if (body_->charge().revoked()) {
    return Refuse(503,
                  "the request's body came slowly, and its memory was needed for other requests: "
                  "try again later");
  }
  const MemoryBudget& budget = *context_.memory.budget;
  Refuse(503, fmt::format("no room for the request's body: requests and answers in progress hold "
                          "{} of {} bytes that they share; try again later",
                          budget.SharedBytesUsed(), budget.SharedBytes()));
}

void HttpConnection::RefuseTimeout() {
  timed_out_ = false;
  Refuse(408, phase_ == Phase::kHeader ? "the request's header took too long"
                                       : "the request's body took too long");
}

void HttpConnection::Send(HttpResponse response) {
  OnStrand(std::move(response), [](HttpConnection& self, HttpResponse&& sent) {
    if (self.phase_ == Phase::kStreaming) return self.ClientGone();
    if (self.phase_ != Phase::kHandling) return;  // the client is gone, or Handle failed
    self.Write(std::move(sent));
  });
}

void HttpConnection::Write(HttpResponse response) {
  LAGOON_CHECK(phase_ == Phase::kHandling);
  EndWatch();
  response_ = std::move(response);
  BeginTransfer(Phase::kWriting);
  ChargeAnswer();
  if (context_.owner->Draining() || unread_input_) keep_alive_ = false;
  head_ = RenderHead(response_, keep_alive_);
  written_ = 0;
  GoesLow() ? WriteLow() : WriteNow();
}

// Charges the answer until the client has received it. Without room, replaces it by a 503, or a 413
// if there can never be room.
void HttpConnection::ChargeAnswer() {
  answer_charge_ = response_.charge != nullptr ? std::move(response_.charge) : NewCharge();
  const std::size_t bytes = response_.MemoryBytes();
  if (answer_charge_->Renew(bytes, transfer_began_)) return;
  response_ = HttpResponse::Failure(answer_charge_->NoRoom(bytes));
  answer_charge_ = NewCharge();
}

std::shared_ptr<MemoryCharge> HttpConnection::NewCharge() {
  return std::make_shared<MemoryCharge>(context_.memory.budget, weak_from_this(), Now());
}

void HttpConnection::EndAnswer() {
  // An assignment of {} would keep the memory of the text as long as the connection is idle.
  std::exchange(response_, {});
  answer_charge_.reset();
}

void HttpConnection::OnWritten(ErrorCodeIo error) {
  EndAnswer();
  if (phase_ == Phase::kClosed) return;
  if (error) return Close();
  if (keep_alive_) return NextRequest();
  if (!unread_input_) return Close();
  Linger();
}

void HttpConnection::Linger() {
  // Closing with input unread makes the kernel reset the connection, and the client may lose the
  // answer.
  SetDeadline(Phase::kLingering, kLingerTime);
  ErrorCodeIo ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
  input_.consume(input_.size());
  DiscardInput();
}

void HttpConnection::DiscardInput() {
  socket_.async_read_some(input_.prepare(kHeaderChunk),
                          [self = shared_from_this()](ErrorCodeIo error, std::size_t) {
                            if (error) return self->Close();
                            self->DiscardInput();
                          });
}

void HttpConnection::Close() {
  if (phase_ == Phase::kClosed || AfterPiece(&HttpConnection::Close)) return;
  phase_ = Phase::kClosed;
  deadline_.store(kNoDeadline, std::memory_order_relaxed);
  ErrorCodeIo ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
  inflating_.reset();
  // Last: a read into the body, or a write of the answer, may have been under way.
  body_.reset();
  EndAnswer();
  DropParts();
}

void HttpConnection::Reset() {
  if (AfterPiece(&HttpConnection::Reset)) return;
  ErrorCodeIo ignored;
  socket_.set_option(net::socket_base::linger(true, 0), ignored);  // drops unsent bytes
  Close();
}

}  // namespace lagoon
