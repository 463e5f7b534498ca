#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"
#include "device/device.h"

namespace lagoon {

/// Host memory as device memory: 64-byte aligned and counted against a limit. Large buffers lie on
/// huge pages if the operating system has them. Any thread.
class HostMemory final : public MemoryOwner, public std::enable_shared_from_this<HostMemory> {
 public:
  /// `limit_bytes`: 0 means all memory of the machine. `device`: name of the device, for messages.
  explicit HostMemory(std::size_t limit_bytes, std::string device = "cpu");

  /// kResourceExhausted names the bytes asked and free. 0 bytes give an empty buffer.
  Result<Buffer> Allocate(std::size_t bytes);
  void Free(void* data, std::size_t bytes) override;

  std::size_t limit_bytes() const { return limit_bytes_; }

 private:
  bool Take(std::size_t bytes);

  const std::size_t limit_bytes_;
  const std::string device_;
  std::atomic<std::size_t> used_bytes_{0};
};

}  // namespace lagoon
