#pragma once

#include <cstddef>

namespace lagoon {

/// How many connections a listener may have when it wants `wanted` and the process may have
/// `descriptors` files and sockets: some are left for gRPC, metrics and files.
std::size_t ConnectionsWithin(std::size_t descriptors, std::size_t wanted);
/// gRPC takes no connection when so many of the process's `descriptors` are in use: the rest is
/// left for HTTP and files.
std::size_t DescriptorsForGrpc(std::size_t descriptors);
/// The process's limit now: `ulimit -n`.
std::size_t DescriptorLimit();

/// A descriptor in reserve: given up for a moment when there is no other, so that a client can be
/// answered instead of left waiting. Owned by one thread at a time.
class SpareDescriptor {
 public:
  SpareDescriptor() { Take(); }
  ~SpareDescriptor() { Give(); }
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;

  /// True when the reserve is there (again).
  bool Take();
  void Give();

 private:
  int descriptor_ = -1;
};

}  // namespace lagoon
