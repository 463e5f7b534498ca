#include "server/channel/channel_edge.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread.h"
#include "server/error_map.h"

namespace lagoon {
namespace {

// Keys of events: a session's socket has an even number, its doorbell the odd one behind.
constexpr std::uint64_t kListener = 0, kStop = 1, kFirst = 2;

tl::unexpected<Error> CannotListen(const std::string& path, const std::string& why,
                                   ErrorCode code = ErrorCode::kInvalidArgument) {
  return Fail(code, fmt::format("channel {}: {}", Quoted(path), why));
}

std::string Text(int error) { return std::system_category().message(error); }

Result<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return CannotListen(path, fmt::format("the path has {} bytes, it may have 1 to {}", path.size(),
                                          sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

/// Removes a socket on which no server listens.
Status MakeWay(const std::string& path, const sockaddr_un& address) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode)) return CannotListen(path, "the file exists and is no socket");
  const int probe = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const bool answers =
      ::connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const int error = errno;
  ::close(probe);
  if (answers || error != ECONNREFUSED) {
    return CannotListen(path, answers ? "another server listens there" : Text(error),
                        ErrorCode::kAlreadyExists);
  }
  ::unlink(path.c_str());
  return {};
}

Result<int> ListenOn(const std::string& path) {
  LAGOON_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  LAGOON_RETURN_IF_ERROR(MakeWay(path, address));
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  // The mode is set before anyone can connect.
  if (socket < 0 ||
      ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      ::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 || ::listen(socket, kBacklog) != 0) {
    const int error = errno;
    if (socket >= 0) ::close(socket);
    return CannotListen(path, Text(error));
  }
  return socket;
}

}  // namespace

Status ChannelEdge::Check(const std::string& path) {
  LAGOON_ASSIGN_OR_RETURN(const int socket, ListenOn(path));
  ::close(socket);
  ::unlink(path.c_str());
  return {};
}

Result<std::unique_ptr<ChannelEdge>> ChannelEdge::Start(Inference& core, IoPool& pool,
                                                        const Options& options) {
  LAGOON_ASSIGN_OR_RETURN(const int listener, ListenOn(options.path));
  return std::unique_ptr<ChannelEdge>(new ChannelEdge(core, pool, options, listener));
}

ChannelEdge::ChannelEdge(Inference& core, IoPool& pool, const Options& options, int listener)
    : options_(options),
      server_{core, pool, std::make_shared<ChannelUse>(), options.max_bytes},
      listener_(listener),
      epoll_(::epoll_create1(EPOLL_CLOEXEC)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  LAGOON_CHECK(epoll_ >= 0 && stop_ >= 0);
  Watch(listener_, kListener, EPOLLIN);
  Watch(stop_, kStop, EPOLLIN);
  thread_ = std::jthread([this] { Run(); });
}

ChannelEdge::~ChannelEdge() {
  if (!stopped_) Stop(Now());
  for (const int descriptor : {epoll_, stop_}) ::close(descriptor);
}

void ChannelEdge::Stop(TimePoint until) {
  stopped_ = true;
  const std::uint64_t one = 1;
  LAGOON_CHECK(::write(stop_, &one, sizeof(one)) == sizeof(one));
  thread_.join();
  ::close(listener_);
  ::unlink(options_.path.c_str());
  if (!server_.use->WaitIdle(until)) {
    for (const auto& [key, session] : sessions_) session->End();
    server_.use->WaitIdle(kNoDeadline);
  }
  sessions_.clear();
}

void ChannelEdge::Watch(int descriptor, std::uint64_t key, std::uint32_t events) const {
  epoll_event event{};
  event.events = events;
  event.data.u64 = key;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0) {
    spdlog::error("channel: a client is not heard: {}", Text(errno));
  }
}

void ChannelEdge::Run() {
  NameThisThread("lagoon-channel");
  std::array<epoll_event, 16> events{};
  for (;;) {
    if (ServeAll()) continue;
    const int count =
        SleepAll() ? ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1) : 0;
    for (const auto& [key, session] : sessions_) {
      if (session->region() != nullptr) session->region()->Awake();
    }
    for (int i = 0; i < count; ++i) {
      if (events[static_cast<std::size_t>(i)].data.u64 == kStop) return;
      OnEvent(events[static_cast<std::size_t>(i)].data.u64);
    }
  }
}

/// True: a client had asked for something.
bool ChannelEdge::ServeAll() {
  bool served = false;
  std::uint64_t liar = 0;
  for (const auto& [key, session] : sessions_) {
    const ChannelSession::Served result = session->Serve();
    if (result == ChannelSession::Served::kSome) served = true;
    if (result == ChannelSession::Served::kLie) liar = key;
  }
  if (liar == 0) return served;
  spdlog::warn("channel: process {} breaks the protocol; its channel ends",
               sessions_[liar]->process());
  Drop(liar);
  return true;
}

bool ChannelEdge::SleepAll() {
  return std::ranges::all_of(sessions_, [](const auto& entry) {
    ChannelRegion* const region = entry.second->region();
    return region == nullptr || region->Sleep();
  });
}

Status ChannelEdge::CheckRoom(pid_t process) const {
  const auto own = static_cast<std::size_t>(std::ranges::count_if(
      sessions_, [&](const auto& entry) { return entry.second->process() == process; }));
  if (sessions_.size() < options_.max_channels && own < options_.max_channels_of_process) return {};
  return Fail(
      ErrorCode::kResourceExhausted,
      fmt::format("there are {} channels, {} of this process; the limits are {} and {}: "
                  "close some",
                  sessions_.size(), own, options_.max_channels, options_.max_channels_of_process));
}

void ChannelEdge::Accept() {
  int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0 && (errno == EMFILE || errno == ENFILE)) {
    // No descriptor is left: the client is refused, else it would be here again at once.
    spare_.Give();
    socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket >= 0) ::close(socket);
    spare_.Take();
    return;
  }
  if (socket < 0) return;
  ucred peer{};
  socklen_t size = sizeof(peer);
  ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  if (const Status room = CheckRoom(peer.pid); !room) {
    const std::string text = fmt::format(
        "error {} {}", static_cast<int>(GrpcCode(room.error().code)), room.error().message);
    ::send(socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    ::close(socket);
    return;
  }
  const std::uint64_t key = kFirst + 2 * last_session_++;
  sessions_.emplace(key, std::make_shared<ChannelSession>(server_, socket, peer.pid));
  Watch(socket, key, EPOLLIN);
}

void ChannelEdge::OnEvent(std::uint64_t key) {
  if (key == kListener) return Accept();
  const auto found = sessions_.find(key / 2 * 2);
  if (found == sessions_.end() || key % 2 != 0) return;  // a doorbell: ServeAll() comes next
  ChannelSession& session = *found->second;
  const bool was_open = session.region() != nullptr;
  if (!session.OnMessage()) return Drop(key);
  // Edge-triggered: every write is an event, and the number is never read.
  if (!was_open && session.region() != nullptr) {
    Watch(session.region()->doorbell(), key + 1, EPOLLIN | EPOLLET);
  }
}

void ChannelEdge::Drop(std::uint64_t session) {
  const auto found = sessions_.find(session);
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, found->second->socket(), nullptr);
  if (ChannelRegion* const region = found->second->region(); region != nullptr) {
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, region->doorbell(), nullptr);
  }
  ::shutdown(found->second->socket(), SHUT_RDWR);
  found->second->End();
  sessions_.erase(found);
}

}  // namespace lagoon
