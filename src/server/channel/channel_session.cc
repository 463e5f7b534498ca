#include "server/channel/channel_session.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/guard.h"
#include "server/error_map.h"
#include "server/regions/shared_regions.h"
#include "server/tensors/classes.h"
#include "server/tensors/tensor_codec.h"

namespace lagoon {

// ---- What is in progress

std::shared_ptr<void> ChannelUse::Hold(const std::shared_ptr<ChannelUse>& use) {
  std::shared_ptr<void> hold(nullptr, [use](std::nullptr_t) {
    const MutexLock lock(use->mutex_);
    if (--use->requests_ == 0) use->idle_.NotifyAll();
  });
  const MutexLock lock(use->mutex_);
  ++use->requests_;
  return hold;
}

bool ChannelUse::WaitIdle(TimePoint until) {
  const MutexLock lock(mutex_);
  while (requests_ > 0) {
    if (until == kNoDeadline) {
      idle_.Wait(mutex_);
    } else if (Now() >= until) {
      return false;
    } else {
      idle_.WaitUntil(mutex_, until);
    }
  }
  return true;
}

// ---- The socket

ChannelSession::ChannelSession(const Server& server, int socket, pid_t process)
    : server_(server), socket_(socket), process_(process) {}

ChannelSession::~ChannelSession() {
  if (region_ != nullptr) server_.use->bytes.fetch_sub(region_->data().size());
  ::close(socket_);
}

bool ChannelSession::Say(const std::string& text, bool with_descriptors) const {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (with_descriptors) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(2 * sizeof(int));
    const std::array<int, 2> descriptors = {region_->memory(), region_->doorbell()};
    std::memcpy(CMSG_DATA(head), descriptors.data(), sizeof(descriptors));
  }
  // A client that takes no answers loses its channel: the edge never waits.
  return ::sendmsg(socket_, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

bool ChannelSession::Refuse(const Error& error) const {
  return Say(fmt::format("error {} {}", static_cast<int>(GrpcCode(error.code)),
                         CutMessage(error.message)));
}

Status ChannelSession::Open(std::string_view words) {
  std::uint64_t bytes = 0;
  const auto read = std::from_chars(words.data(), words.data() + words.size(), bytes);
  if (read.ec != std::errc() || read.ptr != words.data() + words.size()) {
    return Fail(ErrorCode::kInvalidArgument, "'open' needs a number of bytes");
  }
  if (region_ != nullptr) return Fail(ErrorCode::kAlreadyExists, "the channel is open");
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<ChannelRegion> region, ChannelRegion::Make(bytes));
  const std::uint64_t size = region->data().size();
  const std::uint64_t before = server_.use->bytes.fetch_add(size);
  if (before + size > server_.most_bytes) {
    server_.use->bytes.fetch_sub(size);
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("a channel of {} bytes: all channels have {} of the {} that they may "
                            "have; close some",
                            size, before, server_.most_bytes));
  }
  region_ = std::move(region);
  return {};
}

bool ChannelSession::OnMessage() {
  // One byte more, which tells that the message was longer.
  std::vector<char> text(channel::kMostMessageBytes + 1);
  const ssize_t got = ::recv(socket_, text.data(), text.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (got <= 0 || static_cast<std::size_t>(got) > channel::kMostMessageBytes) return false;
  const std::string_view message(text.data(), static_cast<std::size_t>(got));
  constexpr std::string_view kOpen = "open ", kCall = "call ";
  if (message.starts_with(kOpen)) {
    const Status opened = WithoutExceptions([&] { return Open(message.substr(kOpen.size())); });
    if (!opened) return Refuse(opened.error());
    return Say(fmt::format("open {} {}", channel::kSlots, region_->data().size()), true);
  }
  if (!message.starts_with(kCall) || region_ == nullptr) return false;
  if (calls_.size() == kMostCalls) {
    return Refuse({ErrorCode::kResourceExhausted,
                   fmt::format("the channel has {} calls, the limit; use them again", kMostCalls)});
  }
  auto call = WithoutExceptions([&] {
    return ChannelCall::Parse(std::as_bytes(std::span(message.substr(kCall.size()))),
                              region_->data().size());
  });
  if (!call) return Refuse(call.error());
  calls_.push_back(*std::move(call));
  return Say(fmt::format("call {}", calls_.size() - 1));
}

// ---- Requests

ChannelSession::Served ChannelSession::Serve() {
  if (region_ == nullptr || ended_) return Served::kNothing;
  channel::Submission entry{};
  for (int i = 0; i < kMostAtOnce; ++i) {
    switch (region_->Take(entry)) {
      case ChannelRegion::Taken::kNone:
        return i == 0 ? Served::kNothing : Served::kSome;
      case ChannelRegion::Taken::kLie:
        return Served::kLie;
      case ChannelRegion::Taken::kOne:
        break;
    }
    if (entry.kind == channel::Kind::kCancel) {
      Cancel(entry.tag);
    } else {
      Submit(entry);
    }
  }
  return Served::kSome;
}

Result<InferRequest> ChannelSession::RequestOf(const channel::Submission& entry,
                                               TimePoint arrival) {
  if (entry.kind != channel::Kind::kInfer || entry.call >= calls_.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("kind {} of call {}: the channel has {} calls",
                            static_cast<std::uint32_t>(entry.kind), entry.call, calls_.size()));
  }
  LAGOON_ASSIGN_OR_RETURN(
      InferRequest request,
      calls_[entry.call]->RequestAt(entry.base, region_->data(), shared_from_this()));
  if (entry.timeout_us != 0) {
    LAGOON_ASSIGN_OR_RETURN(request.timeout, TimeoutFromMicroseconds(entry.timeout_us));
  }
  if (entry.priority != 0) request.priority = entry.priority;
  request.arrival = arrival;
  request.near_end = shared_from_this();
  return request;
}

void ChannelSession::Submit(const channel::Submission& entry) {
  const auto free = std::ranges::find_if(
      flights_, [](const Flight& flight) { return !flight.busy.load(std::memory_order_acquire); });
  LAGOON_CHECK(free != flights_.end());  // ChannelRegion::Take() bounds the requests in flight
  const TimePoint arrival = Now();
  Flight& flight = *free;
  Asked asked{static_cast<std::size_t>(free - flights_.begin()), entry.tag, entry.base,
              entry.call < calls_.size() ? calls_[entry.call] : nullptr, arrival};
  flight.tag = entry.tag;
  flight.busy.store(true, std::memory_order_relaxed);
  region_->Begin();
  Result<InferRequest> request = WithoutExceptions([&] { return RequestOf(entry, arrival); });
  if (!request) return Complete(asked, tl::unexpected<Error>(std::move(request).error()));
  flight.handle = server_.core.Infer(
      *std::move(request), [self = shared_from_this(), asked, hold = ChannelUse::Hold(server_.use)](
                               Result<InferResponse> result) mutable {
        // A copy of the session that this thread releases last, behind the code of the pool.
        const auto keep = std::pair(self, std::move(hold));
        keep.first->Answer(asked, std::move(result));
      });
}

void ChannelSession::Cancel(std::uint64_t tag) {
  for (const Flight& flight : flights_) {
    if (!flight.busy.load(std::memory_order_acquire) || flight.tag != tag) continue;
    server_.core.Cancel(flight.handle);
  }
}

void ChannelSession::End() {
  if (std::exchange(ended_, true)) return;
  for (const Flight& flight : flights_) {
    if (flight.busy.load(std::memory_order_acquire)) server_.core.Cancel(flight.handle);
  }
}

/// On any thread, one of a device perhaps: large copies go to a thread of the edge.
void ChannelSession::Answer(const Asked& asked, Result<InferResponse> result) {
  std::size_t copied = 0;
  if (result) {
    for (const OutputTensor& output : result->outputs) copied += output.data.size();
  }
  if (copied <= SharedRegions::kSmallCopy) return Complete(asked, std::move(result));
  PostSurely(server_.pool.one_by_one(),
             [self = shared_from_this(), asked, hold = ChannelUse::Hold(server_.use),
              result = std::move(result)]() mutable { self->Complete(asked, std::move(result)); });
}

void ChannelSession::Complete(const Asked& asked, Result<InferResponse> result) {
  channel::Completion entry;  // NOLINT: Write() and WriteError() say how much of it is used
  std::memset(&entry, 0, offsetof(channel::Completion, output));
  entry.tag = asked.tag;
  entry.total_ns = static_cast<std::uint64_t>((Now() - asked.arrival).count());
  const Result<std::size_t> used = WithoutExceptions([&]() -> Result<std::size_t> {
    if (!result) return tl::unexpected<Error>(std::move(result).error());
    LAGOON_RETURN_IF_ERROR(RenderClasses(*result));
    entry.compute_ns = static_cast<std::uint64_t>(
        (result->job.computed - result->job.inputs_copied - result->plan_wait_between).count());
    return asked.call->Write(*result, asked.base, region_->data(), entry);
  });
  const std::size_t bytes = used ? *used : WriteError(used.error(), entry);
  // The place is free before the region lets the client ask for another request.
  flights_[asked.flight].busy.store(false, std::memory_order_release);
  region_->Complete(entry, bytes);
}

}  // namespace lagoon
