// How an HttpConnection writes an answer.

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <utility>

#include "server/http/http_connection.h"

namespace lagoon {
namespace {

namespace net = boost::asio;

constexpr std::size_t kMostParts = 64;
// Most bytes that one call writes.
constexpr std::size_t kMostWritten = std::size_t{1} << 20;
// To hand an answer over to the LowLane and to take it back takes the edges 50 us, which is about
// what it takes to send half as many bytes.
constexpr std::size_t kLowBytes = std::size_t{1} << 20;
// How long an answer waits for a core on the LowLane. Then a thread of the edge sends it, so that a
// client is answered also where other programs take all cores.
constexpr std::chrono::seconds kMostLowWait{1};

}  // namespace

/// Writes at once what the socket takes, which is all of most answers: without the turns of the
/// pool and the wakeups of its threads that an operation of Asio takes. Within Handle() the end of
/// an answer must wait, because the handler may still read the request.
void HttpConnection::WriteNow() {
  if (in_handler_) return WriteRest();
  std::vector<iovec> parts = RestOfAnswer();
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = std::min(parts.size(), kMostParts);
  const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) written_ = static_cast<std::size_t>(sent);
  RestOfAnswer().empty() ? OnWritten({}) : WriteRest();  // which also meets an error of the socket
}

void HttpConnection::WriteRest() {
  std::vector<net::const_buffer> rest;
  for (const iovec& part : RestOfAnswer()) rest.emplace_back(part.iov_base, part.iov_len);
  net::async_write(
      socket_, rest,
      [self = shared_from_this(), before = written_](ErrorCodeIo error, std::size_t taken) {
        if (!error) self->MoveDeadline(before + taken);
        return error ? 0 : kMostWritten;
      },
      [self = shared_from_this()](ErrorCodeIo error, std::size_t) { self->OnWritten(error); });
}

/// The part of the answer that is not written yet.
std::vector<iovec> HttpConnection::RestOfAnswer() {
  std::vector<iovec> parts;
  std::size_t skip = written_;
  const auto add = [&](const void* data, std::size_t bytes) {
    const std::size_t skipped = std::min(skip, bytes);
    skip -= skipped;
    if (skipped == bytes) return;
    const auto* const rest = static_cast<const std::byte*>(data) + skipped;
    parts.push_back({const_cast<std::byte*>(rest), bytes - skipped});  // it is only read
  };
  add(head_.data(), head_.size());
  if (is_head_) return parts;
  add(response_.text.data(), response_.text.size());
  for (const UnfilledBytes& blob : response_.blobs) add(blob.data(), blob.size());
  return parts;
}

// ---- On the LowLane

bool HttpConnection::GoesLow() const {
  return context_.low != nullptr && response_.gives_way && !is_head_ &&
         response_.BodyBytes() >= kLowBytes;
}

void HttpConnection::WriteLow() {
  piece_ = std::make_shared<LowLane::Piece>(
      socket_.native_handle(), RestOfAnswer(),
      [self = shared_from_this()] { PostSurely(self->strand_, [self] { self->OnPiece(); }); });
  MoveDeadline(written_);
  deadline_.store(std::min(deadline_.load(std::memory_order_relaxed), Now() + kMostLowWait),
                  std::memory_order_relaxed);
  context_.low->Post(piece_);
}

// The lane has sent what it could.
void HttpConnection::OnPiece() {
  const std::shared_ptr<LowLane::Piece> piece = std::exchange(piece_, nullptr);
  written_ += piece->sent();
  if (after_piece_ != nullptr) return (this->*std::exchange(after_piece_, nullptr))();
  MoveDeadline(written_);
  if (piece->error() != 0) {
    return OnWritten(ErrorCodeIo(piece->error(), boost::system::system_category()));
  }
  if (RestOfAnswer().empty()) return OnWritten({});
  socket_.async_wait(Socket::wait_write, [self = shared_from_this()](ErrorCodeIo error) {
    if (error || self->phase_ != Phase::kWriting) {
      return self->OnWritten(net::error::operation_aborted);
    }
    self->WriteLow();
  });
}

/// Returns true if the lane uses the socket now: it stops soon, and then `next` is called.
bool HttpConnection::AfterPiece(void (HttpConnection::*next)()) {
  if (piece_ == nullptr) return false;
  if (piece_->TakeBack()) {
    piece_.reset();
    return false;
  }
  after_piece_ = next;
  context_.low->Hurry();
  return true;
}

void HttpConnection::OnWriteDeadline() {
  MoveDeadline(written_);
  if (Now() >= deadline_.load(std::memory_order_relaxed)) return Reset();
  if (piece_ != nullptr && !AfterPiece(&HttpConnection::WriteRest)) WriteRest();
}

}  // namespace lagoon
