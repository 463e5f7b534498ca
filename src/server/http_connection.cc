#include "server/http_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace lagoon {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

// One read of a header; also takes the first piece of a body, which is then copied: no larger.
constexpr std::size_t kHeaderChunk = 16 * 1024;
// What a client may send ahead of its answer before we stop reading from it.
constexpr std::size_t kMaxAhead = 32 * 1024;
constexpr std::chrono::seconds kLingerTime{2};
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// Reads as much as the socket has; the default of asio is 64 KB a call.
std::size_t WholePieces(const boost::system::error_code& error, std::size_t) {
  return error ? 0 : std::numeric_limits<std::size_t>::max();
}

bool Says(const http::fields& fields, http::field name, std::string_view value) {
  return beast::iequals(fields[name], beast::string_view(value.data(), value.size()));
}

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
  net::post(strand_, [self = shared_from_this()] {
    ErrorCodeIo ignored;
    self->socket_.set_option(net::ip::tcp::no_delay(true), ignored);
    self->socket_.non_blocking(true, ignored);
    self->NextRequest();
  });
}

void HttpConnection::Drain() {
  draining_.store(true, std::memory_order_relaxed);  // answers from now on say so
  net::post(strand_, [self = shared_from_this()] {
    if (self->phase_ == Phase::kIdle) self->Close();
  });
}

void HttpConnection::Abort() {
  net::post(strand_, [self = shared_from_this()] { self->ClientGone(); });
}

void HttpConnection::CheckDeadline(TimePoint now) {
  if (now < deadline_.load(std::memory_order_relaxed)) return;
  net::post(strand_, [self = shared_from_this()] {
    if (Now() < self->deadline_.load(std::memory_order_relaxed)) return;  // it moved on meanwhile
    if (self->phase_ == Phase::kHeader || self->phase_ == Phase::kBody) {
      self->timed_out_ = true;  // the read that is aborted answers
      ErrorCodeIo ignored;
      self->socket_.cancel(ignored);
    } else {
      self->Close();
    }
  });
}

void HttpConnection::SetDeadline(Phase phase, Nanoseconds in) {
  phase_ = phase;
  deadline_.store(Now() + in, std::memory_order_relaxed);
}

Nanoseconds HttpConnection::TransferTime(std::size_t bytes) const {
  const HttpLimits& limits = context_.limits;
  const double seconds =
      static_cast<double>(bytes) / static_cast<double>(limits.min_bytes_per_second);
  return limits.transfer_timeout +
         std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double>(seconds));
}

// --- reading a request ---

void HttpConnection::NextRequest() {
  ++request_;
  client_gone_ = nullptr;
  body_.reset();
  body_bytes_ = 0;
  chunks_.reset();
  header_.emplace();
  header_->header_limit(static_cast<std::uint32_t>(context_.limits.max_header_bytes));
  // Acceptable() checks it and says the values.
  header_->body_limit(std::numeric_limits<std::uint64_t>::max());
  SetDeadline(Phase::kIdle, context_.limits.idle_timeout);
  if (draining_ && input_.size() == 0) return Close();
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
  input_.consume(header_->put(input_.data(), error));
  if (error == http::error::header_limit) {
    unread_input_ = true;
    return Refuse(431, fmt::format("the request's header has more than {} bytes",
                                   context_.limits.max_header_bytes));
  }
  if (error && error != http::error::need_more) {
    unread_input_ = true;
    return Refuse(400, fmt::format("malformed HTTP request: {}", error.message()));
  }
  if (header_->is_header_done()) return OnHeader();
  ReadHeader();
}

bool HttpConnection::Acceptable() {
  const auto& fields = header_->get().base();
  const std::size_t limit = context_.limits.max_body_bytes;
  const auto length = header_->content_length();
  if (length && *length > limit) {
    Refuse(413, fmt::format("the request's body has {} bytes, the limit is {}", *length, limit));
    return false;
  }
  const auto encoding = fields[http::field::content_encoding];
  if (!encoding.empty() && !Says(fields, http::field::content_encoding, "identity")) {
    Refuse(415, fmt::format("content encoding '{}' is not supported, send the body as it is",
                            std::string_view(encoding.data(), encoding.size())));
    return false;
  }
  const auto expect = fields[http::field::expect];
  if (!expect.empty() && !Says(fields, http::field::expect, "100-continue")) {
    Refuse(417, fmt::format("expectation '{}' is not supported",
                            std::string_view(expect.data(), expect.size())));
    return false;
  }
  return true;
}

void HttpConnection::OnHeader() {
  keep_alive_ = header_->get().keep_alive();
  unread_input_ = header_->chunked() || header_->content_length().value_or(0) > 0;
  if (!Acceptable()) return;
  if (!unread_input_) {
    received_ = Now();
    return Handle();
  }
  const std::size_t bytes =
      header_->chunked() ? context_.limits.max_body_bytes : *header_->content_length();
  body_ = context_.pool->Acquire(bytes);
  if (body_ == nullptr) {
    return Refuse(
        503, fmt::format("no room for a body of {} bytes beside the requests in progress", bytes));
  }
  body_bytes_ = bytes;
  SetDeadline(Phase::kBody, TransferTime(bytes));
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
  if (header_->chunked()) return ReadChunkedBody();
  ReadSizedBody(body_bytes_);
}

void HttpConnection::ReadSizedBody(std::size_t bytes) {
  // Straight into the buffer that the device will read from: parsing it would copy it once more.
  const std::size_t here = std::min(bytes, input_.size());
  std::memcpy(body_.get(), input_.data().data(), here);
  input_.consume(here);
  net::async_read(socket_, net::buffer(body_.get() + here, bytes - here), WholePieces,
                  [self = shared_from_this(), bytes](ErrorCodeIo error, std::size_t) {
                    self->OnBody(error, bytes);
                  });
}

void HttpConnection::ReadChunkedBody() {
  chunks_.emplace(std::move(*header_));
  chunks_->body_limit(body_bytes_);
  chunks_->get().body().data = body_.get();
  chunks_->get().body().size = body_bytes_;
  chunks_->get().body().more = true;
  http::async_read(
      socket_, input_, *chunks_,
      [self = shared_from_this()](ErrorCodeIo error, std::size_t) { self->OnChunkedBody(error); });
}

void HttpConnection::OnChunkedBody(ErrorCodeIo error) {
  if (error == http::error::body_limit || error == http::error::need_buffer) {
    return Refuse(413, fmt::format("the request's body has more than {} bytes, the limit",
                                   context_.limits.max_body_bytes));
  }
  // Errors of the chunks' own form can be answered; those of the socket cannot.
  if (error && error.category() == make_error_code(http::error::bad_chunk).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return Refuse(400, fmt::format("malformed chunked body: {}", error.message()));
  }
  OnBody(error, body_bytes_ - chunks_->get().body().size);
}

void HttpConnection::OnBody(ErrorCodeIo error, std::size_t bytes) {
  if (phase_ == Phase::kClosed) return;
  if (timed_out_) return RefuseTimeout();
  if (error) return Close();
  body_bytes_ = bytes;
  unread_input_ = false;
  received_ = Now();
  Handle();
}

// --- handling it ---

void HttpConnection::Handle() {
  SetDeadline(Phase::kHandling, Nanoseconds::zero());
  deadline_.store(kNoDeadline, std::memory_order_relaxed);  // the job's own deadline counts now
  const auto& head = chunks_ ? chunks_->get().base() : header_->get().base();
  const auto target = head.target();
  const HttpRequest request{head.method(), {target.data(), target.size()},
                            head,          {body_.get(), body_bytes_},
                            body_,         first_byte_,
                            received_};
  try {
    context_.handler.Handle(request, shared_from_this());
  } catch (const std::exception& e) {
    spdlog::error("server: handling a request failed: {}", e.what());
    // Closes afterwards: an answer that comes all the same must not meet the next request.
    if (phase_ == Phase::kHandling) return Refuse(500, "the server could not handle the request");
  }
  body_.reset();  // the handler holds it as long as it needs it
  if (phase_ == Phase::kHandling) WatchClient();
}

void HttpConnection::WatchClient() {
  socket_.async_wait(Socket::wait_read,
                     [self = shared_from_this(), request = request_](ErrorCodeIo error) {
                       if (error || self->request_ != request) return;
                       if (self->phase_ == Phase::kHandling) self->OnClientReadable();
                     });
}

void HttpConnection::OnClientReadable() {
  // More than that waits in the socket; that client is not watched until its answer is out.
  if (input_.size() >= kMaxAhead) return;
  ErrorCodeIo error;
  const std::size_t bytes = socket_.read_some(input_.prepare(kMaxAhead - input_.size()), error);
  if (error == net::error::would_block) return WatchClient();
  if (error) return ClientGone();
  input_.commit(bytes);
  WatchClient();
}

void HttpConnection::ClientGone() {
  const auto cancel = phase_ == Phase::kHandling ? std::move(client_gone_) : nullptr;
  client_gone_ = nullptr;
  Close();
  if (cancel) cancel();
}

// --- answering ---

void HttpConnection::Refuse(unsigned status, std::string_view message) {
  if (phase_ == Phase::kClosed) return;
  keep_alive_ = false;
  phase_ = Phase::kHandling;
  Write(HttpResponse::Failure(status, message));
}

void HttpConnection::RefuseTimeout() {
  timed_out_ = false;
  unread_input_ = true;
  Refuse(408, phase_ == Phase::kHeader ? "the request's header took too long"
                                       : "the request's body took too long");
}

void HttpConnection::Send(HttpResponse response) {
  net::dispatch(strand_, [self = shared_from_this(), response = std::move(response)]() mutable {
    if (self->phase_ != Phase::kHandling) return;  // the client is gone, or Handle failed
    self->Write(std::move(response));
  });
}

void HttpConnection::Write(HttpResponse response) {
  LAGOON_CHECK(phase_ == Phase::kHandling);
  ErrorCodeIo ignored;
  socket_.cancel(ignored);  // the watch
  response_ = std::move(response);
  if (draining_ || unread_input_) keep_alive_ = false;
  head_ = RenderHead(response_, keep_alive_);
  const std::size_t bytes = response_.BodyBytes();
  SetDeadline(Phase::kWriting, TransferTime(bytes));

  const bool with_body = !header_ || chunks_ || header_->get().method() != http::verb::head;
  std::vector<net::const_buffer> pieces = {net::buffer(head_)};
  if (with_body) {
    pieces.push_back(net::buffer(response_.text));
    for (const auto& blob : response_.blobs) pieces.push_back(net::buffer(blob));
  }
  net::async_write(socket_, pieces, [self = shared_from_this()](ErrorCodeIo error, std::size_t) {
    self->OnWritten(error);
  });
}

void HttpConnection::OnWritten(ErrorCodeIo error) {
  if (phase_ == Phase::kClosed) return;
  response_ = {};
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
  body_.reset();
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
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  deadline_.store(kNoDeadline, std::memory_order_relaxed);
  body_.reset();
  ErrorCodeIo ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
}

}  // namespace lagoon
