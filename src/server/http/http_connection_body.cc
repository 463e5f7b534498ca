#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>

#include "server/http/http_connection.h"
#include "server/http/http_request_rules.h"

namespace lagoon {
namespace {

namespace net = boost::asio;

// Inflated at a stretch: about 1 ms.
constexpr std::size_t kPiece = std::size_t{256} << 10;

}  // namespace

std::size_t HttpConnection::MaxBodyBytes() const {
  const auto& head = header_->get().base();
  const std::string_view target = OriginForm({head.target().data(), head.target().size()});
  return std::min(context_.limits.max_body_bytes,
                  context_.handler.MaxBodyBytes(head.method(), target));
}

const HttpRequestHeader& HttpConnection::Head() const {
  return chunks_ ? chunks_->get().base() : header_->get().base();
}

// The body has arrived and is not Handle()d before it is inflated: the parsers and the limits see
// what the client means.
void HttpConnection::BeginInflating() {
  SetDeadline(Phase::kHandling, Nanoseconds::zero());
  deadline_.store(kNoDeadline, std::memory_order_relaxed);
  inflating_ = std::make_unique<Inflating>();
  inflating_->body = std::move(body_);
  inflating_->rest = {inflating_->body->data(), body_bytes_};
  max_body_bytes_ = std::min(max_body_bytes_, kMostInflatedBytes);
  body_ = std::make_shared<RequestBody>(context_.memory, weak_from_this(), Now());
  body_bytes_ = 0;
  InflateSome();
}

void HttpConnection::InflateSome() {
  if (phase_ == Phase::kClosed) return;
  if (body_bytes_ == max_body_bytes_) {
    return Refuse(413, fmt::format("the request's body has more than {} bytes when it is inflated, "
                                   "the limit; send it as it is",
                                   max_body_bytes_));
  }
  // Doubling copies each byte about once.
  const std::size_t room = std::min(std::max(2 * body_bytes_, kPiece), max_body_bytes_);
  if (body_bytes_ == body_->capacity() && !body_->Reserve(room, body_bytes_)) {
    return RefuseForRoom();
  }
  const std::size_t piece = std::min(kPiece, body_->capacity() - body_bytes_);
  if (!body_->charge().Grow(body_bytes_ + piece, Now())) return RefuseForRoom();
  const Inflater::Step step =
      inflating_->inflater.Next(inflating_->rest, true, {body_->data() + body_bytes_, piece});
  body_bytes_ += step.written;
  if (step.state == Inflater::State::kBad) {
    return Refuse(400,
                  "the request's body cannot be inflated: it is damaged, or not what its "
                  "Content-Encoding says");
  }
  if (step.state == Inflater::State::kMore) {
    return net::post(strand_, [self = shared_from_this()] { self->InflateSome(); });
  }
  inflating_.reset();
  if (!body_->charge().Pin()) return RefuseForRoom();
  received_ = Now();
  Handle();
}

}  // namespace lagoon
