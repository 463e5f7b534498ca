#pragma once

#include <cstddef>
#include <memory>

#include "base/status.h"
#include "device/cuda/driver.h"

namespace lagoon::cuda {

/// A GPU's primary context, retained: the one that every module, stream and allocation of a device
/// lies in. Lives as long as the last of them.
class GpuSession {
 public:
  static Result<std::shared_ptr<const GpuSession>> Open(std::shared_ptr<const Driver> driver,
                                                        int ordinal);
  ~GpuSession();
  GpuSession(const GpuSession&) = delete;
  GpuSession& operator=(const GpuSession&) = delete;

  const Driver& driver() const { return *driver_; }
  const GpuInfo& gpu() const { return gpu_; }
  Ordinal device() const { return device_; }
  /// Makes the context the calling thread's. Before any call that works in it.
  Status Enter() const;

 private:
  GpuSession(std::shared_ptr<const Driver> driver, GpuInfo gpu)
      : driver_(std::move(driver)), gpu_(std::move(gpu)) {}

  const std::shared_ptr<const Driver> driver_;
  const GpuInfo gpu_;
  Ordinal device_ = 0;
  Context context_ = nullptr;
};

/// Memory that a device needs for itself, all bits zero: on the GPU, or pinned on the host where
/// both can reach it.
class OwnMemory {
 public:
  enum class Where { kDevice, kPinned };

  OwnMemory() = default;
  static Result<OwnMemory> Create(std::shared_ptr<const GpuSession> session, std::size_t bytes,
                                  Where where);
  ~OwnMemory();
  OwnMemory(OwnMemory&& other) noexcept { *this = std::move(other); }
  OwnMemory& operator=(OwnMemory&& other) noexcept;

  Address device() const { return device_; }
  std::byte* host() const { return host_; }  // null: on the GPU
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const GpuSession> session_;
  Address device_ = 0;
  std::byte* host_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A CUDA stream with a word in pinned memory that says how far it has come.
class MarkedStream {
 public:
  /// `word`: pinned, as host and GPU see it. Borrowed. `priority`: the driver's number. `share`:
  /// the green context that its kernels run in; null: none.
  static Result<std::unique_ptr<MarkedStream>> Create(std::shared_ptr<const GpuSession> session,
                                                      int priority, std::uint32_t* word,
                                                      Address device_word,
                                                      GreenContext share = nullptr);
  ~MarkedStream();
  MarkedStream(const MarkedStream&) = delete;
  MarkedStream& operator=(const MarkedStream&) = delete;

  Stream handle() const { return stream_; }
  /// Enqueues a mark and returns its number; 0 and `code` when the driver refuses.
  std::uint32_t Mark(Code& code);
  /// Everything before the mark is done and seen. Any thread.
  bool Reached(std::uint32_t mark) const {
    // acquire: what a copy brought is read after it.
    const std::uint32_t now = __atomic_load_n(word_, __ATOMIC_ACQUIRE);
    return static_cast<std::int32_t>(now - mark) >= 0;
  }

 private:
  MarkedStream(std::shared_ptr<const GpuSession> session, std::uint32_t* word, Address device_word)
      : session_(std::move(session)), word_(word), device_word_(device_word) {}

  const std::shared_ptr<const GpuSession> session_;
  std::uint32_t* const word_;
  const Address device_word_;
  Stream stream_ = nullptr;
  std::uint32_t marks_ = 0;
};

}  // namespace lagoon::cuda
