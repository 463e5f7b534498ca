#pragma once

#include <cstddef>

namespace lagoon {

/// How many connections a listener may have, at most `wanted`, in a process that may have
/// `descriptors` files and sockets. Leaves some for gRPC, metrics and files.
std::size_t ConnectionsWithin(std::size_t descriptors, std::size_t wanted);
/// gRPC accepts no connection while this many of the process's `descriptors` are in use. The rest
/// is left for HTTP and files.
std::size_t DescriptorsForGrpc(std::size_t descriptors);
/// The process's present limit of descriptors (`ulimit -n`).
std::size_t DescriptorLimit();

/// Sets what every accepted TCP connection has: small messages go at once; and to a client on this
/// machine one call of the system takes 256 KB at most. Kernels built without preemption let no
/// other thread onto the core during a call, and a call that copies 4 MB takes 3 ms. Measured with
/// a control loop beside background answers of 25 MB over gRPC: a p99 of 1.7 ms in place of 3.2. A
/// client elsewhere keeps the system's size, which follows the delay of the network.
void PrepareConnection(int socket);

/// A descriptor in reserve. When no other is left, it is closed for a moment, so that a client can
/// be answered instead of left waiting. Owned by one thread at a time.
class SpareDescriptor {
 public:
  SpareDescriptor() { Take(); }
  ~SpareDescriptor() { Give(); }
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;

  /// Opens the reserve unless it is open. True: the reserve is open.
  bool Take();
  void Give();

 private:
  int descriptor_ = -1;
};

}  // namespace lagoon
