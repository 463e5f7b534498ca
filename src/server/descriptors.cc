#include "server/descriptors.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace lagoon {
namespace {

// Descriptors that HTTP leaves for gRPC's connections, metrics, model files and devices.
constexpr std::size_t kOtherDescriptors = 256;
// Descriptors that gRPC leaves for all other uses.
constexpr std::size_t kNotForGrpc = 64;
// SO_SNDBUF. Linux doubles it, as a part of the buffer is for its own records.
constexpr int kLocalSendBuffer = 128 << 10;

using IpAddress = std::array<std::byte, 16>;

/// Nothing comparable, all zeros, where the system does not say.
IpAddress AddressOf(int socket, decltype(&::getpeername) side) {
  IpAddress address{};
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (side(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return address;
  if (storage.ss_family == AF_INET) {
    std::memcpy(address.data(), &reinterpret_cast<sockaddr_in*>(&storage)->sin_addr, 4);
  } else if (storage.ss_family == AF_INET6) {
    std::memcpy(address.data(), &reinterpret_cast<sockaddr_in6*>(&storage)->sin6_addr, 16);
  }
  return address;
}

}  // namespace

std::size_t ConnectionsWithin(std::size_t descriptors, std::size_t wanted) {
  const std::size_t others = std::min(kOtherDescriptors, descriptors / 2);
  return std::clamp<std::size_t>(descriptors - others, 1, wanted);
}

std::size_t DescriptorsForGrpc(std::size_t descriptors) {
  return descriptors - std::min(kNotForGrpc, descriptors / 8);
}

std::size_t DescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<std::size_t>::max();
  }
  return limit.rlim_cur;
}

void PrepareConnection(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const IpAddress peer = AddressOf(socket, ::getpeername);
  if (peer == IpAddress{} || peer != AddressOf(socket, ::getsockname)) return;
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kLocalSendBuffer, sizeof(kLocalSendBuffer));
}

bool SpareDescriptor::Take() {
  if (descriptor_ < 0) descriptor_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  return descriptor_ >= 0;
}

void SpareDescriptor::Give() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace lagoon
