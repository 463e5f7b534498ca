// How an HttpConnection writes an answer in parts.

#include <fmt/format.h>

#include <boost/asio/write.hpp>
#include <utility>

#include "server/http/http_connection.h"

namespace lagoon {
namespace {

namespace net = boost::asio;

}  // namespace

void HttpConnection::SendPart(HttpPart part) {
  OnStrand(std::move(part),
           [](HttpConnection& self, HttpPart&& sent) { self.AddPart(std::move(sent)); });
}

void HttpConnection::AddPart(HttpPart part) {
  if (phase_ == Phase::kHandling) {
    phase_ = Phase::kStreaming;
    chunked_ = Head().version() >= 11;
    if (!chunked_ || context_.owner->Draining()) keep_alive_ = false;
    head_ = RenderStreamHead(chunked_, keep_alive_);
    if (!watching_) WatchClient();
  } else if (phase_ != Phase::kStreaming) {  // the client is gone
    if (part.written) part.written();
    return;
  }
  parts_.push_back(std::move(part));
  if (!writing_part_) WritePart();
}

// The client is watched meanwhile: writing does not tell that it has left.
void HttpConnection::WritePart() {
  writing_part_ = true;
  const HttpPart& part = parts_.front();
  if (!chunked_) {
    head_ += part.text;
  } else {
    if (!part.text.empty()) head_ += fmt::format("{:x}\r\n{}\r\n", part.text.size(), part.text);
    if (part.last) head_ += "0\r\n\r\n";
  }
  transfer_began_ = Now();
  MoveDeadline(0);
  net::async_write(socket_, net::buffer(head_),
                   Patient([self = shared_from_this()](ErrorCodeIo error, std::size_t) {
                     self->OrDrop([&] { self->OnPartWritten(error); });
                   }));
}

void HttpConnection::OnPartWritten(ErrorCodeIo error) {
  writing_part_ = false;
  if (phase_ != Phase::kStreaming) return DropParts();
  if (error) return ClientGone();
  deadline_.store(kNoDeadline, std::memory_order_relaxed);  // the job's own deadline counts
  const HttpPart part = std::move(parts_.front());
  parts_.pop_front();
  head_.clear();
  if (part.written) part.written();
  if (!part.last) {
    if (!parts_.empty()) WritePart();
    return;
  }
  EndWatch();
  client_gone_ = nullptr;
  if (keep_alive_) return NextRequest();
  Close();
}

/// Nothing is written any more. The part of a write in progress goes when that has ended.
void HttpConnection::DropParts() {
  while (parts_.size() > (writing_part_ ? 1 : 0)) {
    if (parts_.back().written) parts_.back().written();
    parts_.pop_back();
  }
}

}  // namespace lagoon
