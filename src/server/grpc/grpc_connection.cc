#include "server/grpc/grpc_connection.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <stdexcept>
#include <utility>

#include "base/log.h"
#include "server/descriptors.h"

namespace lagoon {
namespace {

// Most bytes of one read beside those of a message that has its place already.
constexpr std::size_t kReadBytes = std::size_t{64} << 10;
constexpr std::size_t kMostRoom = std::size_t{256} << 10;
// Reads before the thread does something else.
constexpr int kMostReads = 4;
// Bytes on their way to the socket at a time.
constexpr std::size_t kMostOutput = std::size_t{1} << 20;
constexpr std::size_t kMostParts = 64;
// Frames without data that a client lets wait, beyond four of each call.
constexpr std::size_t kMostWaiting = 2000;
// How long the client has to close after the last answer.
constexpr std::chrono::seconds kLingerTime{2};
// How long a client has to say that it begins no further call.
constexpr std::chrono::seconds kNoticeTime{1};
constexpr std::size_t kMostDiscarded = std::size_t{1} << 20;
constexpr std::chrono::seconds kCheckPeriod{1};

std::span<std::byte> ReadBuffer() {
  thread_local const std::unique_ptr<std::byte[]> buffer(new std::byte[kReadBytes]);
  return {buffer.get(), kReadBytes};
}

Http2Session::Limits SessionLimits(const GrpcLimits& limits) {
  Http2Session::Limits session;
  session.max_streams = limits.max_calls_per_connection;
  session.max_header_bytes = static_cast<std::uint32_t>(limits.max_header_bytes);
  return session;
}

void EndSurely(GrpcExchange& exchange) {
  exchange.OnClosed();
  try {
    exchange.End();
  } catch (const std::exception& error) {
    spdlog::error("server: a call was dropped: {}", error.what());
  }
}

}  // namespace

GrpcConnection::GrpcConnection(Socket socket, Context context)
    : socket_(std::move(socket)),
      strand_(socket_.get_executor()),
      context_(std::move(context)),
      conduct_(Now()) {
  context_.owner->ConnectionBegan();
  began_ = heard_ = idle_since_ = sent_ = Now();
}

GrpcConnection::~GrpcConnection() { context_.owner->ConnectionEnded(); }

// ---- From any thread

template <typename Work>
void GrpcConnection::OnStrand(Work work) {
  PostSurely(strand_, [self = shared_from_this(), work = std::move(work)] {
    self->OrDrop([&] { work(*self); });
  });
}

/// Does `work`; if it throws (memory ran out), the connection ends.
template <typename Work>
void GrpcConnection::OrDrop(Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    spdlog::error("server: a connection of gRPC was dropped: {}", error.what());
    working_ = false;
    Close();
  }
}

void GrpcConnection::Start() {
  OnStrand([](GrpcConnection& self) {
    ErrorCodeIo ignored;
    PrepareConnection(self.socket_.native_handle());
    self.socket_.non_blocking(true, ignored);
    self.session_ = std::make_unique<Http2Session>(static_cast<Http2Session::Events&>(self),
                                                   SessionLimits(self.context_.limits));
    const GrpcLimits& limits = self.context_.limits;
    self.NotLaterThan(self.began_ + std::min(limits.handshake_timeout, limits.idle_timeout));
    self.Flush();
    self.Await();
    if (self.context_.owner->Closing()) self.Drain();
  });
}

void GrpcConnection::Drain() {
  OnStrand([](GrpcConnection& self) {
    if (!self.socket_.is_open()) return;
    self.Leave();
    self.Flush();
  });
}

void GrpcConnection::Abort() {
  OnStrand([](GrpcConnection& self) { self.Close(); });
}

void GrpcConnection::CheckDeadline(TimePoint now) {
  if (now < deadline_.load(std::memory_order_relaxed)) return;
  OnStrand([](GrpcConnection& self) { self.OnDeadline(); });
}

// ---- Reading

void GrpcConnection::Await() {
  socket_.async_wait(Socket::wait_read, Patient([self = shared_from_this()](ErrorCodeIo error) {
                       if (error) return self->Close();
                       self->OrDrop([&] { self->OnReadable(); });
                     }));
}

void GrpcConnection::OnReadable() {
  working_ = true;
  for (int i = 0; i < kMostReads && socket_.is_open() && ReadSome(); ++i) {
  }
  if (!fault_.empty()) CutOff(fault_);
  Settle();
  if (socket_.is_open()) Await();
}

/// Returns true if there may be more to read.
bool GrpcConnection::ReadSome() {
  const std::span<std::byte> buffer = ReadBuffer();
  std::span<std::byte> room;
  std::shared_ptr<const void> owner;
  GrpcExchange* const exchange = data_left_ > 0 ? Find(data_stream_) : nullptr;
  if (exchange != nullptr) {
    room = exchange->Room(std::min(data_left_, kMostRoom));
    owner = exchange->room_owner();
  }
  std::array<iovec, 2> places = {iovec{room.data(), room.size()},
                                 iovec{buffer.data(), buffer.size()}};
  const ssize_t got = room.empty()
                          ? ::recv(socket_.native_handle(), buffer.data(), buffer.size(), 0)
                          : ::readv(socket_.native_handle(), places.data(), places.size());
  if (got <= 0) {
    if (got == 0 || (errno != EAGAIN && errno != EINTR)) Close();
    return false;
  }
  heard_ = Now();
  const auto bytes = static_cast<std::size_t>(got);
  if (lingering_) {
    discarded_ += bytes;
    if (discarded_ > kMostDiscarded) Close();
    return true;
  }
  const std::size_t placed = std::min(bytes, room.size());
  if (placed > 0) Receive(room.first(placed));
  if (bytes > placed) Receive(buffer.first(bytes - placed));
  return fault_.empty() && bytes == room.size() + buffer.size();
}

void GrpcConnection::Receive(std::span<const std::byte> data) {
  if (!fault_.empty() || !socket_.is_open()) return;
  switch (session_->Receive(data)) {
    case Http2Session::Verdict::kBroken:
      return Close();
    case Http2Session::Verdict::kFlood:
      return Blame("it floods the connection with frames, or breaks the protocol");
    case Http2Session::Verdict::kGood:
      break;
  }
  if (session_->Waiting() > 4 * context_.limits.max_calls_per_connection + kMostWaiting) {
    Blame("it does not take its answers");
  }
}

GrpcExchange* GrpcConnection::Find(StreamId stream) {
  const auto found = exchanges_.find(stream);
  return found == exchanges_.end() ? nullptr : found->second.get();
}

void GrpcConnection::OnBegin(StreamId stream) {
  conduct_.OnUse();
  exchanges_.emplace(stream, std::make_shared<GrpcExchange>(shared_from_this(), stream, heard_));
  NotLaterThan(heard_ + kCheckPeriod);
}

void GrpcConnection::OnField(StreamId stream, std::string_view name, std::string_view value,
                             bool first) {
  GrpcExchange* const exchange = Find(stream);
  if (exchange == nullptr) return;
  first ? exchange->OnField(name, value) : exchange->OnTrailer(name, value);
  // Each field takes time, also where it is a reference of one byte.
  if (exchange->header_bytes() > 4 * context_.limits.max_header_bytes) {
    throw std::length_error("header");
  }
}

void GrpcConnection::OnHeader(StreamId stream) {
  const auto found = exchanges_.find(stream);
  if (found == exchanges_.end()) return;
  found->second->OnHeader();
  Ready(found->second);
}

void GrpcConnection::OnDataBegin(StreamId stream, std::size_t bytes) {
  data_stream_ = stream;
  data_left_ = bytes;
}

void GrpcConnection::OnData(StreamId stream, std::span<const std::byte> data) {
  if (stream == data_stream_) data_left_ -= std::min(data_left_, data.size());
  conduct_.OnUse();
  const auto found = exchanges_.find(stream);
  if (found == exchanges_.end()) return session_->ConsumeOfConnection(data.size());
  found->second->OnData(data);
  Ready(found->second);
}

void GrpcConnection::OnEnd(StreamId stream) {
  const auto found = exchanges_.find(stream);
  if (found == exchanges_.end()) return;
  found->second->OnEnd();
  Ready(found->second);
}

void GrpcConnection::OnClosed(StreamId stream) {
  const auto found = exchanges_.find(stream);
  if (found == exchanges_.end()) return;
  found->second->OnClosed();
  if (!found->second->answered()) Blame(conduct_.OnFailure(heard_));
  ended_.push_back(std::move(found->second));
  exchanges_.erase(found);
  if (exchanges_.empty()) idle_since_ = heard_;
}

void GrpcConnection::OnRefused() { Blame(conduct_.OnFailure(heard_)); }

void GrpcConnection::OnControl() { Blame(conduct_.OnControl(heard_)); }

/// The connection will be cut off, unless `why` is empty.
void GrpcConnection::Blame(std::string_view why) {
  if (fault_.empty()) fault_ = why;
}

// ---- Work and writing

void GrpcConnection::Flush() {
  if (working_) return;
  working_ = true;
  Settle();
}

void GrpcConnection::Do(const std::function<void()>& work) {
  if (working_) return work();
  working_ = true;
  try {
    work();
  } catch (const std::exception&) {
    working_ = false;
    throw;
  }
  Settle();
}

/// Runs what waits. Returns false if nothing did.
bool GrpcConnection::RunQueued() {
  const auto ready = std::exchange(ready_, {});
  const auto after = std::exchange(after_, {});
  const auto ended = std::exchange(ended_, {});
  try {
    for (const auto& exchange : ready) exchange->Deliver();
    for (const auto& work : after) work();
    for (const auto& exchange : ended) exchange->End();
  } catch (const std::exception&) {
    for (const auto& exchange : ended) EndSurely(*exchange);
    throw;
  }
  return !ready.empty() || !after.empty() || !ended.empty();
}

/// Does all that there is to do. Where memory runs out on the way, the connection ends: work of
/// other calls may be lost.
void GrpcConnection::Settle() {
  try {
    while (SettleOnce()) {
    }
  } catch (const std::exception& error) {
    spdlog::error("server: a connection of gRPC was dropped: {}", error.what());
    Close();
    after_.clear();
  }
  working_ = false;
  if (socket_.is_open() && !lingering_ && output_.empty() && session_->Done()) Linger();
}

/// Returns false if there was nothing to do.
bool GrpcConnection::SettleOnce() {
  if (RunQueued()) return true;
  if (!socket_.is_open() || awaits_writable_ || lingering_) return false;
  if (!session_->Produce(output_, kMostOutput)) {
    Close();
    return true;
  }
  if (!output_.empty()) {
    SendOutput();
    return true;
  }
  return !ready_.empty() || !after_.empty() || !ended_.empty();
}

Http2Session::Offer GrpcConnection::OnOffer(StreamId stream, std::size_t most) {
  GrpcExchange* const exchange = Find(stream);
  return exchange == nullptr ? Http2Session::Offer{} : exchange->OnOffer(most);
}

void GrpcConnection::OnTake(StreamId stream, std::size_t bytes, Http2Output& output) {
  Find(stream)->OnTake(bytes, output);
}

void GrpcConnection::SendOutput() {
  while (!output_.empty()) {
    std::vector<iovec> parts = output_.Parts(kMostParts);
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN ? AwaitWritable() : Close();
    }
    sent_ = Now();
    output_.Drop(static_cast<std::size_t>(sent));
  }
}

void GrpcConnection::AwaitWritable() {
  awaits_writable_ = true;
  sent_ = Now();
  NotLaterThan(sent_ + kCheckPeriod);
  socket_.async_wait(Socket::wait_write, Patient([self = shared_from_this()](ErrorCodeIo error) {
                       self->awaits_writable_ = false;
                       if (error) return self->Close();
                       self->OrDrop([&] {
                         self->working_ = true;
                         self->SendOutput();
                         self->Settle();
                       });
                     }));
}

// ---- Deadlines and the end

void GrpcConnection::NotLaterThan(TimePoint time) {
  if (time < deadline_.load(std::memory_order_relaxed)) {
    deadline_.store(time, std::memory_order_relaxed);
  }
}

void GrpcConnection::OnDeadline() {
  if (!socket_.is_open()) return;
  const TimePoint now = Now();
  deadline_.store(kNoDeadline, std::memory_order_relaxed);
  working_ = true;
  CheckCalls(now);
  CheckClient(now);
  Settle();
}

void GrpcConnection::CheckCalls(TimePoint now) {
  const auto exchanges = exchanges_;  // a call may end
  for (const auto& [stream, exchange] : exchanges) {
    exchange->CheckDeadline(now);
    NotLaterThan(exchange->deadline());
  }
  if (!exchanges_.empty()) NotLaterThan(now + kCheckPeriod);
}

void GrpcConnection::CheckClient(TimePoint now) {
  const GrpcLimits& limits = context_.limits;
  const auto over = [&](TimePoint since, auto time) {
    if (now >= since + time) return true;
    NotLaterThan(since + time);
    return false;
  };
  if (lingering_) {
    if (over(sent_, kLingerTime)) Close();
    return;
  }
  if (noticed_ != kNoDeadline && over(noticed_, kNoticeTime)) GoAway();
  if (!spoken_ && over(began_, limits.handshake_timeout)) return Close();
  if (awaits_writable_ && over(sent_, limits.stall_timeout)) return Close();
  if (exchanges_.empty()) {
    pinged_ = kNoDeadline;
    if (spoken_ && over(idle_since_, limits.idle_timeout)) Leave();
  } else if (pinged_ != kNoDeadline) {
    if (heard_ > pinged_) {
      pinged_ = kNoDeadline;
    } else if (over(pinged_, limits.ping_timeout)) {
      Close();
    }
  } else if (over(heard_, limits.stall_timeout)) {
    pinged_ = now;
    session_->Ping();
  }
}

/// A client that learns at once that no further call is served may cancel a call that it has not
/// sent yet, as grpc++ does. That breaks the rules of HTTP/2: the connection ends, with all its
/// other calls. So the server first asks the client to begin no further call, and sends a ping. The
/// answer to the ping says that the client knows. Then the server names the last call it serves.
void GrpcConnection::Leave() {
  if (std::exchange(going_, true)) return;
  if (!spoken_) return session_->GoAway();
  session_->GoAwaySoon();
  noticed_ = Now();
  NotLaterThan(noticed_ + kNoticeTime);
}

void GrpcConnection::OnPong() {
  pinged_ = kNoDeadline;
  if (noticed_ != kNoDeadline) GoAway();
}

void GrpcConnection::GoAway() {
  noticed_ = kNoDeadline;
  session_->GoAway();
}

void GrpcConnection::CutOff(std::string_view why) {
  ErrorCodeIo error;
  const auto peer = socket_.remote_endpoint(error);
  if (!error) context_.owner->OnCutOff(peer.address(), why);
  Close();
}

/// Closing with input unread makes the kernel reset the connection, and the client may lose the
/// last answer.
void GrpcConnection::Linger() {
  lingering_ = true;
  sent_ = Now();
  NotLaterThan(sent_ + kLingerTime);
  ErrorCodeIo ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

void GrpcConnection::Close() {
  if (!socket_.is_open()) return;
  deadline_.store(kNoDeadline, std::memory_order_relaxed);
  ErrorCodeIo ignored;
  socket_.shutdown(Socket::shutdown_both, ignored);
  socket_.close(ignored);
  const bool works = std::exchange(working_, true);
  ready_.clear();
  for (const auto& [stream, exchange] : std::exchange(exchanges_, {})) EndSurely(*exchange);
  for (const auto& exchange : std::exchange(ended_, {})) EndSurely(*exchange);
  output_ = {};
  working_ = works;
  Flush();
}

}  // namespace lagoon
