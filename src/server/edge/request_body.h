#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "server/edge/buffer_pool.h"
#include "server/memory_budget.h"

namespace lagoon {

/// The memory that the connections of all ports share.
struct EdgeMemory {
  std::shared_ptr<BufferPool> buffers;
  std::shared_ptr<MemoryBudget> budget;
};

/// The bytes of one request's body. They are charged as they arrive: the size that a client
/// declares reserves address space, but no memory. One thread at a time.
class RequestBody {
 public:
  RequestBody(EdgeMemory memory, std::weak_ptr<MemoryHolder> holder, TimePoint now)
      : memory_(std::move(memory)), charge_(memory_.budget, std::move(holder), now) {}

  /// Makes room for `capacity` bytes at data() and keeps the first `used` bytes. False: memory is
  /// out.
  bool Reserve(std::size_t capacity, std::size_t used) {
    if (capacity <= capacity_) return true;
    auto bytes = memory_.buffers->Acquire(capacity);
    if (bytes == nullptr) return false;
    std::copy_n(bytes_.get(), used, bytes.get());
    bytes_ = std::move(bytes);
    capacity_ = capacity;
    return true;
  }

  std::byte* data() const { return bytes_.get(); }
  std::size_t capacity() const { return capacity_; }
  MemoryCharge& charge() { return charge_; }

 private:
  const EdgeMemory memory_;
  std::shared_ptr<std::byte[]> bytes_;
  std::size_t capacity_ = 0;
  MemoryCharge charge_;
};

}  // namespace lagoon
