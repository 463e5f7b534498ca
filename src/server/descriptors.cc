#include "server/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

namespace lagoon {
namespace {

// Descriptors that HTTP leaves for gRPC's connections, metrics, model files and devices.
constexpr std::size_t kOtherDescriptors = 256;
// Descriptors that gRPC leaves for all other uses.
constexpr std::size_t kNotForGrpc = 64;

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

bool SpareDescriptor::Take() {
  if (descriptor_ < 0) descriptor_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  return descriptor_ >= 0;
}

void SpareDescriptor::Give() {
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace lagoon
