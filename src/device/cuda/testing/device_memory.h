#pragma once

#include <sanitizer/asan_interface.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <map>

namespace lagoon::cuda::fake {

/// The memory of a fake GPU. As on a real one, its addresses fault on the host: only the driver's
/// calls reach the bytes, through a second mapping. Emulated kernels use the addresses themselves,
/// so they do not fault while a kernel runs; AddressSanitizer then sees to it that they stay inside
/// of allocations. The driver's lock protects Allocate() and Free().
class DeviceMemory {
 public:
  /// `bytes`: of all blocks together. There is room for gaps between them.
  explicit DeviceMemory(std::size_t bytes) : bytes_(2 * bytes + (1 << 20)) {
    const int file = memfd_create("lagoon_fake_gpu", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0) std::abort();
    on_gpu_ = Map(file, PROT_NONE);
    on_host_ = Map(file, PROT_READ | PROT_WRITE);
    close(file);
  }
  ~DeviceMemory() {
    ASAN_UNPOISON_MEMORY_REGION(on_gpu_, top_);
    munmap(on_gpu_, bytes_);
    munmap(on_host_, bytes_);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// Null: there is no room.
  void* Allocate(std::size_t bytes) {
    const std::size_t rounded = bytes / kAlignment * kAlignment + 2 * kAlignment;  // with a gap
    std::size_t begin = 0;
    for (const auto& [offset, size] : blocks_) {
      if (offset - begin >= rounded) break;
      begin = offset + size;
    }
    if (bytes_ - begin < rounded) return nullptr;
    blocks_[begin] = rounded;
    top_ = std::max(top_, begin + rounded);
    ASAN_POISON_MEMORY_REGION(on_gpu_ + begin, rounded);
    ASAN_UNPOISON_MEMORY_REGION(on_gpu_ + begin, bytes);
    return on_gpu_ + begin;
  }
  void Free(const void* address) {
    const auto found = blocks_.find(OffsetOf(address));
    ASAN_POISON_MEMORY_REGION(address, found->second);
    blocks_.erase(found);
  }

  bool Has(const void* address) const { return OffsetOf(address) < bytes_; }
  /// Where the driver finds the bytes of an address, which may be one of the host's.
  std::byte* OnHost(const void* address) const {
    auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
    return Has(address) ? on_host_ + OffsetOf(address) : at;
  }

  /// While kernels run.
  void Open() { mprotect(on_gpu_, bytes_, PROT_READ | PROT_WRITE); }
  void Close() { mprotect(on_gpu_, bytes_, PROT_NONE); }

 private:
  static constexpr std::size_t kAlignment = 256;

  std::byte* Map(int file, int protection) const {
    void* const at = mmap(nullptr, bytes_, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (at == MAP_FAILED) std::abort();
    return static_cast<std::byte*>(at);
  }
  std::size_t OffsetOf(const void* address) const {
    return reinterpret_cast<std::size_t>(address) - reinterpret_cast<std::size_t>(on_gpu_);
  }

  const std::size_t bytes_;
  std::byte* on_gpu_ = nullptr;
  std::byte* on_host_ = nullptr;
  std::map<std::size_t, std::size_t> blocks_;  // bytes by offset
  std::size_t top_ = 0;                        // no block has gone beyond
};

}  // namespace lagoon::cuda::fake
