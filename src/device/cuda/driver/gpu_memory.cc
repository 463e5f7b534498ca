#include "device/cuda/driver/gpu_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace lagoon::cuda {

GpuMemory::GpuMemory(std::shared_ptr<const GpuSession> session, std::size_t limit_bytes)
    : session_(std::move(session)),
      limit_bytes_(limit_bytes == 0 ? session_->gpu().memory_bytes : limit_bytes) {}

// Only the driver knows how much memory other processes have taken.
tl::unexpected<Error> GpuMemory::NoMemory(std::size_t bytes, const char* why) const {
  std::size_t free = 0;
  std::size_t total = 0;
  if (session_->driver().memory_info(&free, &total) != kSuccess) free = 0;
  free = std::min(free, limit_bytes_ - used_bytes_);
  return Fail(
      ErrorCode::kResourceExhausted,
      fmt::format("device 'cuda:{}': cannot allocate {} bytes: {} ({} of {} bytes are free)",
                  session_->gpu().ordinal, bytes, why, free, limit_bytes_));
}

Result<Buffer> GpuMemory::Allocate(std::size_t bytes, MemoryKind kind) {
  if (bytes == 0) return Buffer();
  const bool on_gpu = kind == MemoryKind::kDevice;
  LAGOON_RETURN_IF_ERROR(session_->Enter());
  const Driver& driver = session_->driver();
  if (on_gpu) {
    const MutexLock lock(mutex_);
    if (bytes > limit_bytes_ - used_bytes_) return NoMemory(bytes, "over the memory limit");
    used_bytes_ += bytes;
  }
  Address address = 0;
  Code code = kSuccess;
  if (on_gpu) {
    code = driver.allocate(&address, bytes);
  } else {
    void* host = nullptr;
    code = driver.allocate_host(&host, bytes, kHostPortable);
    address = reinterpret_cast<Address>(host);
  }
  const MutexLock lock(mutex_);
  if (code != kSuccess) {
    used_bytes_ -= on_gpu ? bytes : 0;
    if (on_gpu && code == kOutOfMemory) return NoMemory(bytes, "the GPU has no memory");
    const char* const call = on_gpu ? "cuMemAlloc" : "cuMemHostAlloc";
    Status failed = driver.Check(code, fmt::format("{}({} bytes)", call, bytes));
    return tl::unexpected(std::move(failed).error());
  }
  blocks_[address] = {bytes, on_gpu};
  return Buffer(reinterpret_cast<void*>(address), bytes, shared_from_this());
}

void GpuMemory::Free(void* data, std::size_t bytes) {
  const auto address = reinterpret_cast<Address>(data);
  bool on_gpu = false;
  {
    const MutexLock lock(mutex_);
    const auto found = blocks_.find(address);
    LAGOON_CHECK(found != blocks_.end() && found->second.bytes == bytes);
    on_gpu = found->second.on_gpu;
    blocks_.erase(found);
  }
  // A lost context has already freed the memory.
  if (session_->Enter()) {
    on_gpu ? session_->driver().free(address) : session_->driver().free_host(data);
  }
  const MutexLock lock(mutex_);
  if (on_gpu) used_bytes_ -= bytes;
}

bool GpuMemory::OnGpu(const void* address) const {
  const auto at = reinterpret_cast<Address>(address);
  MutexLock lock(mutex_);
  auto after = blocks_.upper_bound(at);
  if (after == blocks_.begin()) return false;
  const auto& [first, block] = *--after;
  return block.on_gpu && at - first < block.bytes;
}

}  // namespace lagoon::cuda
