#include "server/remote/link_connection.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "server/http/http_message.h"

namespace lagoon {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;

constexpr std::size_t kLinkChunk = 16 * 1024;
constexpr std::uint32_t kMostAnswerHead = 16 * 1024;
// Answers of a model are bounded by the member; this is no answer at all.
constexpr std::uint64_t kMostAnswerBytes = std::numeric_limits<std::int32_t>::max();
// A connection without a request ends before the server, which does so after 75 s, may close it
// while a request is on its way.
constexpr std::chrono::seconds kMostIdle{30};
// A name without a dot is never refused (HttpHosts).
constexpr std::string_view kProbe = "GET /v2 HTTP/1.1\r\nHost: member\r\n\r\n";
// So many connections in a row may end before they have taken a byte of a request.
constexpr int kMostEndedBefore = 3;
// Most pieces of one system call.
constexpr std::size_t kMostPieces = 64;

std::optional<std::size_t> WholeOf(boost::beast::string_view text) {
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

boost::beast::string_view BeastText(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

LinkConnection::LinkConnection(std::shared_ptr<HttpLink> link, HttpLink::Target target)
    : link_(std::move(link)),
      target_(std::move(target)),
      strand_(link_->pool_.NextStrand()),
      resolver_(strand_),
      opened_(Now()),
      heard_(opened_),
      input_(2 * kLinkChunk),
      socket_(strand_) {}

// --- coming about ---

void LinkConnection::Open() {
  PostSurely(strand_, [self = shared_from_this()] {
    self->resolver_.async_resolve(
        self->link_->options_.host, std::to_string(self->target_.port),
        net::ip::tcp::resolver::flags(),  // addresses of all kinds, as gRPC resolves the name too
        [self](ErrorCodeIo error, const net::ip::tcp::resolver::results_type& found) {
          if (self->phase_ == Phase::kClosed) return;
          if (error) return self->Fail(LinkEnd::Kind::kNotSent, error.message());
          self->Connect(found);
        });
  });
}

void LinkConnection::Connect(const net::ip::tcp::resolver::results_type& found) {
  net::async_connect(socket_, found,
                     [self = shared_from_this()](ErrorCodeIo error, const net::ip::tcp::endpoint&) {
                       if (self->phase_ == Phase::kClosed) return;
                       if (error) return self->Fail(LinkEnd::Kind::kNotSent, error.message());
                       self->Probe();
                     });
}

void LinkConnection::Probe() {
  ErrorCodeIo ignored;
  socket_.set_option(net::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);
  phase_ = Phase::kProbing;
  Read();
  net::async_write(socket_, net::buffer(kProbe.data(), kProbe.size()),
                   [self = shared_from_this()](ErrorCodeIo error, std::size_t) {
                     if (error) self->Fail(LinkEnd::Kind::kNotSent, error.message());
                   });
}

void LinkConnection::OnProbed() {
  const auto named = header_->get().find(BeastText(kServerField));
  const std::string server = named == header_->get().end()
                                 ? std::string()
                                 : std::string(named->value().data(), named->value().size());
  if (answer_.status == 503) {
    return Fail(LinkEnd::Kind::kNotSent, "it takes no more connections");
  }
  if (answer_.status != 200 || server.empty()) {
    return Fail(LinkEnd::Kind::kNotSent, "what answers there is no server of Lagoon");
  }
  if (!target_.server.empty() && server != target_.server) {
    return Fail(LinkEnd::Kind::kNotSent,
                fmt::format("the server {} answers there, and not {}", server, target_.server));
  }
  if (!keep_) return Fail(LinkEnd::Kind::kNotSent, "it closes its connections");
  phase_ = Phase::kOpen;
  proven_ = true;
  header_.reset();
  answer_ = {};
  std::uint64_t number = 0;
  {
    const MutexLock lock(mutex_);
    number = number_;
  }
  link_->CameAbout(shared_from_this());
  Read();
  number == 0 ? link_->Idle(shared_from_this()) : Write(number);
}

// --- a request ---

bool LinkConnection::Take(LinkRequest& request) {
  const MutexLock lock(mutex_);
  if (closed_) return false;
  request_ = &request;
  number_ = request.number_;
  ends_at_ = request.ends_at_;
  taken_at_ = Now();
  written_ = 0;
  begun_ = false;
  return true;
}

std::vector<net::const_buffer> LinkConnection::Rest() const {
  std::vector<net::const_buffer> rest;
  std::size_t skip = written_;
  const auto add = [&](const void* data, std::size_t bytes) {
    const std::size_t skipped = std::min(skip, bytes);
    skip -= skipped;
    if (skipped < bytes)
      rest.emplace_back(static_cast<const char*>(data) + skipped, bytes - skipped);
  };
  add(request_->head_.data(), request_->head_.size());
  for (const auto& tensor : request_->tensors_) add(tensor.data(), tensor.size());
  return rest;
}

void LinkConnection::Write(std::uint64_t number) {
  int failed = 0;
  {
    const MutexLock lock(mutex_);
    if (closed_ || number_ != number || request_ == nullptr) return;
    begun_ = true;
    for (auto rest = Rest(); !rest.empty(); rest = Rest()) {
      std::array<iovec, kMostPieces> pieces;
      const std::size_t count = std::min(rest.size(), kMostPieces);
      for (std::size_t i = 0; i < count; ++i) {
        pieces[i] = {const_cast<void*>(rest[i].data()), rest[i].size()};
      }
      msghdr message{};
      message.msg_iov = pieces.data();
      message.msg_iovlen = count;
      const ssize_t sent =
          ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) {
        failed = errno;
        break;
      }
      written_ += static_cast<std::size_t>(sent);
    }
    writing_ = failed == EAGAIN || failed == EWOULDBLOCK;
  }
  if (failed == 0) return;
  PostSurely(strand_, [self = shared_from_this(), failed] {
    if (failed == EAGAIN || failed == EWOULDBLOCK) return self->WriteRest();
    self->Fail(LinkEnd::Kind::kLost,
               ErrorCodeIo(failed, boost::system::system_category()).message());
  });
}

void LinkConnection::WriteRest() {
  std::vector<net::const_buffer> rest;
  {
    const MutexLock lock(mutex_);
    if (!closed_) rest = Rest();
    written_ = std::max<std::size_t>(written_, 1);  // from now on it is not known how much
  }
  if (rest.empty()) return OnWritten({});
  net::async_write(
      socket_, rest,
      [self = shared_from_this()](ErrorCodeIo error, std::size_t) -> std::size_t {
        if (!error) self->heard_ = Now();
        return error ? 0 : std::size_t{1} << 20;
      },
      [self = shared_from_this()](ErrorCodeIo error, std::size_t) { self->OnWritten(error); });
}

void LinkConnection::OnWritten(ErrorCodeIo error) {
  std::optional<LinkEnd> pending;
  {
    const MutexLock lock(mutex_);
    writing_ = false;
    pending.swap(pending_);
  }
  if (pending) return Finish(*std::move(pending));
  // A server that has refused the request reads no more: its answer, or the end, is to be read.
  if (error) keep_ = false;
}

void LinkConnection::Cut(std::uint64_t number) {
  PostSurely(strand_, [self = shared_from_this(), number] {
    bool has = false;
    bool begun = false;
    {
      const MutexLock lock(self->mutex_);
      has = self->request_ != nullptr && self->number_ == number;
      begun = self->begun_;
    }
    if (!has) return;
    // The end of the connection is what tells the server.
    if (begun) return self->Fail(LinkEnd::Kind::kCut, "");
    self->Finish({.kind = LinkEnd::Kind::kCut});
    if (self->phase_ == Phase::kOpen) self->link_->Idle(self);
  });
}

// --- its answer ---

void LinkConnection::Read() {
  if (!in_body_ && !header_) AwaitHeader();
  const net::mutable_buffer buffer =
      in_body_ ? net::buffer(answer_.body.data() + body_read_, answer_.body.size() - body_read_)
               : net::mutable_buffer(input_.prepare(kLinkChunk));
  socket_.async_read_some(buffer,
                          [self = shared_from_this()](ErrorCodeIo error, std::size_t bytes) {
                            if (self->phase_ == Phase::kClosed) return;
                            try {
                              self->OnRead(error, bytes);
                            } catch (const std::exception& e) {  // memory ran out
                              self->Fail(LinkEnd::Kind::kLost, e.what());
                            }
                          });
}

void LinkConnection::OnRead(ErrorCodeIo error, std::size_t bytes) {
  if (error) {
    const bool end = error == net::error::eof;
    return Fail(LinkEnd::Kind::kLost, end ? "it has closed the connection" : error.message());
  }
  heard_ = Now();
  if (in_body_) {
    body_read_ += bytes;
  } else {
    input_.commit(bytes);
    if (!ParseHeader()) return;
  }
  if (body_read_ < answer_.body.size()) return Read();
  OnAnswer();
}

void LinkConnection::AwaitHeader() {
  header_.emplace();
  header_->header_limit(kMostAnswerHead);
  header_->body_limit(std::numeric_limits<std::uint64_t>::max());
}

bool LinkConnection::ParseHeader() {
  for (;;) {
    ErrorCodeIo error;
    input_.consume(header_->put(input_.data(), error));
    if (error && error != http::error::need_more) {
      Fail(LinkEnd::Kind::kLost, fmt::format("its answer is malformed: {}", error.message()));
      return false;
    }
    if (!header_->is_header_done()) {
      Read();
      return false;
    }
    answer_.status = header_->get().result_int();
    if (answer_.status / 100 != 1) break;  // else a beat
    header_.reset();
    if (input_.size() == 0) {
      Read();
      return false;
    }
    AwaitHeader();
  }
  const auto length = header_->content_length();
  if (!length || *length > kMostAnswerBytes || header_->chunked()) {
    Fail(LinkEnd::Kind::kLost, "its answer has no length that can be");
    return false;
  }
  keep_ = keep_ && header_->get().keep_alive();
  answer_.json_bytes = WholeOf(header_->get()[BeastText(kJsonLengthField)]);
  answer_.body.resize(*length);  // pages that do not come take no memory
  body_read_ = std::min<std::size_t>(*length, input_.size());
  if (body_read_ > 0) std::memcpy(answer_.body.data(), input_.data().data(), body_read_);
  input_.consume(body_read_);
  in_body_ = true;
  return true;
}

void LinkConnection::OnAnswer() {
  in_body_ = false;
  body_read_ = 0;
  if (phase_ == Phase::kProbing) {
    OnProbed();
    return;
  }
  bool has = false;
  bool whole = false;
  {
    const MutexLock lock(mutex_);
    has = request_ != nullptr && begun_;
    whole = has && !writing_;
  }
  if (!has || input_.size() > 0) {
    return Fail(LinkEnd::Kind::kLost, "it has sent an answer without a request");
  }
  header_.reset();
  LinkEnd answer = std::exchange(answer_, LinkEnd{});
  answer.kind = LinkEnd::Kind::kAnswered;
  if (!keep_ || !whole) {
    // The server answered before it had read the whole request, or it closes the connection now.
    phase_ = Phase::kClosed;
    {
      const MutexLock lock(mutex_);
      closed_ = true;
      ErrorCodeIo ignored;
      socket_.close(ignored);
    }
    link_->Closed(shared_from_this(), proven_, "");
    return Finish(std::move(answer));
  }
  Read();
  Finish(std::move(answer));
}

void LinkConnection::Finish(LinkEnd end) {
  LinkRequest* request = nullptr;
  {
    const MutexLock lock(mutex_);
    if (writing_) {
      pending_ = std::move(end);
      return;
    }
    request = std::exchange(request_, nullptr);
    number_ = 0;
    end.begun = std::exchange(begun_, false);
  }
  if (request == nullptr) return;
  link_->Release(*request);
  // First, so that the next request finds the connection.
  if (end.kind == LinkEnd::Kind::kAnswered && phase_ == Phase::kOpen) {
    link_->Idle(shared_from_this());
  }
  request->OnEnd(std::move(end));
}

void LinkConnection::Fail(LinkEnd::Kind kind, const std::string& why) {
  if (phase_ == Phase::kClosed) return;
  phase_ = Phase::kClosed;
  if (!proven_ && kind == LinkEnd::Kind::kLost) kind = LinkEnd::Kind::kNotSent;
  const bool refused = kind == LinkEnd::Kind::kNotSent && !proven_ && !why.empty();
  LinkRequest* unsent = nullptr;
  {
    const MutexLock lock(mutex_);
    closed_ = true;
    ErrorCodeIo ignored;
    socket_.close(ignored);
    resolver_.cancel();
    if (refused) unsent = std::exchange(request_, nullptr);
    // No byte of the request was sent, as the server had closed the connection before.
    if (kind == LinkEnd::Kind::kLost && proven_ && request_ != nullptr && written_ == 0) {
      begun_ = false;
      if (++request_->ended_before_ < kMostEndedBefore) {
        unsent = std::exchange(request_, nullptr);
      } else {
        kind = LinkEnd::Kind::kNotSent;
      }
    }
  }
  if (refused) return link_->Refused(shared_from_this(), unsent, why);
  link_->Closed(shared_from_this(), proven_, why);
  if (unsent != nullptr) {
    link_->Release(*unsent);
    return link_->Place(*unsent);
  }
  Finish({.kind = kind, .why = why});
}

void LinkConnection::Check(TimePoint now) {
  PostSurely(strand_, [self = shared_from_this(), now] { self->OnCheck(now); });
}

void LinkConnection::OnCheck(TimePoint now) {
  if (phase_ == Phase::kClosed) return;
  const HttpLink::Options& options = link_->options_;
  bool has = false;
  TimePoint ends_at = kNoDeadline;
  TimePoint moved = heard_;
  {
    const MutexLock lock(mutex_);
    has = request_ != nullptr;
    if (has) ends_at = ends_at_;
    moved = std::max(moved, taken_at_);
  }
  if (now >= ends_at) return Fail(LinkEnd::Kind::kDeadline, "");
  if (phase_ != Phase::kOpen) {
    if (now - opened_ >= options.connect_timeout) {
      Fail(LinkEnd::Kind::kNotSent, "no answer came in time");
    }
    return;
  }
  if (!has) {
    if (now - moved >= kMostIdle) Fail(LinkEnd::Kind::kLost, "");
    return;
  }
  int unsent = 0;
  if (::ioctl(socket_.native_handle(), SIOCOUTQ, &unsent) == 0 && unsent != unsent_) heard_ = now;
  unsent_ = unsent;
  if (now - std::max(moved, heard_) >= options.silence) {
    Fail(LinkEnd::Kind::kLost, "nothing has come over the connection for too long");
  }
}

void LinkConnection::Shut() {
  PostSurely(strand_, [self = shared_from_this()] { self->Fail(LinkEnd::Kind::kLost, ""); });
}

}  // namespace lagoon
