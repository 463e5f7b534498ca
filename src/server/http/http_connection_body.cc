#include <algorithm>
#include <utility>

#include "base/guard.h"
#include "server/error_map.h"
#include "server/http/http_connection.h"
#include "server/http/http_request_rules.h"

namespace lagoon {

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
  SetDeadline(Phase::kHandling, kWatchDelay);  // the client may leave meanwhile
  inflating_ = std::make_shared<char>();
  InflateQueue::Work work;
  work.input = {std::move(body_), body_bytes_};
  work.output = std::make_shared<RequestBody>(context_.memory, weak_from_this(), Now());
  work.most = max_body_bytes_;
  work.name = "the request's body";
  work.wanted = inflating_;
  work.done = [self = shared_from_this()](Result<InflateQueue::Message> inflated) {
    UntilMemorySuffices([&] {
      PostSurely(self->strand_, [self, inflated]() mutable {
        self->OrDrop([&] { self->OnInflated(std::move(inflated)); });
      });
    });
  };
  context_.inflates.Post(std::move(work));
}

void HttpConnection::OnInflated(Result<InflateQueue::Message> inflated) {
  if (phase_ == Phase::kClosed) return;
  inflating_.reset();
  if (!inflated) return Refuse(HttpStatus(inflated.error().code), inflated.error().message);
  body_ = std::move(inflated->body);
  body_bytes_ = inflated->bytes;
  received_ = Now();
  Handle();
}

}  // namespace lagoon
