#include "serving/python/channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/json_fields.h"

namespace lagoon {
namespace {

struct Prefix {
  std::uint32_t object_bytes = 0;
  std::uint32_t has_file = 0;
  std::uint64_t bytes = 0;
};

constexpr std::size_t kReadAtOnce = std::size_t{64} << 10;
constexpr std::size_t kMostFiles = 8;  // that have come without their messages

std::string SystemText(int problem) { return std::generic_category().message(problem); }

/// An anonymous file with the bytes of `parts`.
Result<OwnedDescriptor> TensorFile(std::span<const std::span<const std::byte>> parts) {
  OwnedDescriptor file(::memfd_create("lagoon-tensors", MFD_CLOEXEC));
  if (!file) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("no memory for tensors of a Python program: {}", SystemText(errno)));
  }
  for (std::span<const std::byte> part : parts) {
    while (!part.empty()) {
      const ssize_t wrote = ::write(file.number(), part.data(), part.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) {
        return Fail(ErrorCode::kResourceExhausted,
                    fmt::format("no memory for {} bytes of a tensor of a Python program: {}",
                                part.size(), SystemText(errno)));
      }
      part = part.subspan(static_cast<std::size_t>(wrote));
    }
  }
  return file;
}

/// For ppoll().
timespec TimeUntil(TimePoint until) {
  const Nanoseconds left =
      std::clamp<Nanoseconds>(until == kNoDeadline ? Nanoseconds::max() : until - Now(),
                              Nanoseconds(0), std::chrono::hours(1));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  return {static_cast<time_t>(seconds.count()), static_cast<long>((left - seconds).count())};
}

}  // namespace

bool AwaitNews(int socket, int ended, int wake, TimePoint until) {
  std::array<pollfd, 3> watched = {pollfd{wake, POLLIN, 0}, pollfd{socket, POLLIN, 0},
                                   pollfd{ended, POLLIN, 0}};
  const timespec wait = TimeUntil(until);
  if (::ppoll(watched.data(), watched.size(), &wait, nullptr) <= 0) return false;
  if ((watched[0].revents & POLLIN) != 0) {
    std::uint64_t count = 0;
    (void)!::read(wake, &count, sizeof(count));
  }
  return watched[1].revents != 0 || watched[2].revents != 0;
}

Status ProgramMessage::Read(std::size_t offset, std::span<std::byte> to) const {
  if (!file_ && !to.empty()) {
    std::memcpy(to.data(), text_.data() + offset, to.size());
    return {};
  }
  while (!to.empty()) {
    const ssize_t got = ::pread(file_.number(), to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return Fail(ErrorCode::kInternal,
                  fmt::format("the program's file of tensors ends at byte {}, of {} that the "
                              "program has announced",
                              offset, bytes_));
    }
    offset += static_cast<std::size_t>(got);
    to = to.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<std::pair<OwnedDescriptor, OwnedDescriptor>> ProgramChannel::Pair() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("no sockets for a Python program: {}", SystemText(errno)));
  }
  return std::pair(OwnedDescriptor(ends[0]), OwnedDescriptor(ends[1]));
}

Status ProgramChannel::SendAll(std::span<const std::byte> bytes, int file, TimePoint until) {
  while (!bytes.empty()) {
    iovec part{const_cast<std::byte*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    if (file >= 0) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &file, sizeof(int));
    }
    const ssize_t sent = ::sendmsg(socket_.number(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
      file = -1;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      return Fail(ErrorCode::kUnavailable, "has closed its connection to the server");
    }
    pollfd watched{socket_.number(), POLLOUT, 0};
    const timespec wait = TimeUntil(until);
    if (::ppoll(&watched, 1, &wait, nullptr) == 0 && Now() >= until) {
      return Fail(ErrorCode::kDeadlineExceeded, "does not read what the server sends");
    }
  }
  return {};
}

Status ProgramChannel::Send(const nlohmann::json& object,
                            std::span<const std::span<const std::byte>> parts, TimePoint until) {
  std::string text = DumpJson(object);
  Prefix prefix;
  for (const std::span<const std::byte> part : parts) prefix.bytes += part.size();
  if (text.size() > kMostObjectBytes || prefix.bytes > kMostMessageBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("{} bytes of tensors and {} bytes about them are for a Python program; "
                            "at most {} and {} may",
                            prefix.bytes, text.size(), kMostMessageBytes, kMostObjectBytes));
  }
  prefix.object_bytes = static_cast<std::uint32_t>(text.size());
  OwnedDescriptor file;
  if (prefix.bytes > kMostInlineBytes) {
    LAGOON_ASSIGN_OR_RETURN(file, TensorFile(parts));
    prefix.has_file = 1;
  } else {
    for (const std::span<const std::byte> part : parts) {
      text.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
  }
  LAGOON_RETURN_IF_ERROR(SendAll(std::as_bytes(std::span(&prefix, 1)), file.number(), until));
  return SendAll(std::as_bytes(std::span(text)), -1, until);
}

/// Adds what has come; blocks if nothing has.
Status ProgramChannel::ReadMore() {
  const std::size_t before = come_.size();
  come_.resize(before + kReadAtOnce);
  iovec part{come_.data() + before, kReadAtOnce};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFiles * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket_.number(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const int problem = errno;
  come_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 && (problem == EAGAIN || problem == EWOULDBLOCK || problem == EINTR)) return {};
  if (got <= 0) return Fail(ErrorCode::kUnavailable, "has closed its connection to the server");
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int file = -1;
      std::memcpy(&file, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      files_.emplace_back(file);
    }
  }
  if (files_.size() > kMostFiles) {
    return Fail(ErrorCode::kInvalidArgument, "has sent files without messages");
  }
  return {};
}

Result<std::optional<ProgramMessage>> ProgramChannel::TakeMessage() {
  Prefix prefix;
  if (come_.size() < sizeof(prefix)) return std::optional<ProgramMessage>();
  std::memcpy(&prefix, come_.data(), sizeof(prefix));
  const bool inline_bytes = prefix.has_file == 0;
  if (prefix.has_file > 1 || prefix.object_bytes > kMostObjectBytes ||
      prefix.bytes > (inline_bytes ? kMostInlineBytes : kMostMessageBytes)) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("has sent a message with {} bytes of tensors and {} bytes about them; "
                    "at most {} and {} may be",
                    prefix.bytes, prefix.object_bytes, kMostMessageBytes, kMostObjectBytes));
  }
  const std::size_t whole =
      sizeof(prefix) + prefix.object_bytes + (inline_bytes ? prefix.bytes : 0);
  if (come_.size() < whole) return std::optional<ProgramMessage>();
  OwnedDescriptor file;
  if (!inline_bytes) {
    if (files_.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "has sent a message without its file");
    }
    file = std::move(files_.front());
    files_.pop_front();
  }
  Result<nlohmann::json> object =
      ParseJson(std::string_view(come_).substr(sizeof(prefix), prefix.object_bytes));
  if (!object || !object->is_object()) {
    return Fail(ErrorCode::kInvalidArgument, "has sent a message that is no JSON object");
  }
  std::string text =
      inline_bytes ? come_.substr(sizeof(prefix) + prefix.object_bytes, prefix.bytes) : "";
  come_.erase(0, whole);
  return std::optional<ProgramMessage>(std::in_place, *std::move(object), prefix.bytes,
                                       std::move(text), std::move(file));
}

bool ProgramChannel::HasEnded() const {
  pollfd watched{ended_, POLLIN, 0};
  return ::poll(&watched, 1, 0) == 1;
}

Result<std::optional<ProgramMessage>> ProgramChannel::Receive(TimePoint until, int wake) {
  while (true) {
    LAGOON_ASSIGN_OR_RETURN(std::optional<ProgramMessage> message, TakeMessage());
    if (message) return message;
    if (!AwaitNews(socket_.number(), ended_, wake, until)) return std::optional<ProgramMessage>();
    const bool ended = HasEnded();  // before the last bytes are read
    const std::size_t before = come_.size();
    LAGOON_RETURN_IF_ERROR(ReadMore());
    if (ended && come_.size() == before) {
      return Fail(ErrorCode::kUnavailable, "has closed its connection to the server");
    }
  }
}

}  // namespace lagoon
