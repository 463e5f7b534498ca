#pragma once

#include <map>
#include <memory>

#include "base/mutex.h"
#include "device/cuda/driver/session.h"
#include "device/device.h"

namespace lagoon::cuda {

/// Allocates buffers of device memory or pinned host memory. Lives as long as the last of them. The
/// driver's calls may wait for all work of the GPU, so they are made without a lock: OnGpu() is
/// asked on the path of every launch and copy.
class GpuMemory final : public MemoryOwner, public std::enable_shared_from_this<GpuMemory> {
 public:
  /// `limit_bytes`: limit on device memory; 0: all memory of the GPU.
  GpuMemory(std::shared_ptr<const GpuSession> session, std::size_t limit_bytes);

  /// kResourceExhausted names the bytes asked and free. 0 bytes give an empty buffer. Any thread.
  Result<Buffer> Allocate(std::size_t bytes, MemoryKind kind);
  void Free(void* data, std::size_t bytes) override;
  /// True if the address lies in a buffer on the GPU. Any thread.
  bool OnGpu(const void* address) const;
  std::size_t limit_bytes() const { return limit_bytes_; }

 private:
  struct Block {
    std::size_t bytes = 0;
    bool on_gpu = true;
  };
  tl::unexpected<Error> NoMemory(std::size_t bytes, const char* why) const REQUIRES(mutex_);

  const std::shared_ptr<const GpuSession> session_;
  const std::size_t limit_bytes_;
  mutable Mutex mutex_;
  std::map<Address, Block> blocks_ GUARDED_BY(mutex_);
  std::size_t used_bytes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lagoon::cuda
