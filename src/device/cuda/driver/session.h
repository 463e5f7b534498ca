#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"
#include "device/cuda/driver/driver.h"

namespace lagoon::cuda {

/// A GPU's primary context, retained. All modules, streams and allocations of a device lie in it.
/// Lives as long as the last of them.
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
  /// Makes the context current on the calling thread. Call it before driver calls that need it, and
  /// before calls that may wait for the GPU.
  Status Enter() const;

  /// The GPU does not end what it does, so that calls which wait for it would never return: this
  /// process gives it up. From now on Enter() and Open() of this GPU fail with `why`, and what the
  /// driver has given stays with the driver until the process ends.
  void Abandon(const std::string& why) const;
  /// For tests, whose driver starts anew: no GPU counts as abandoned.
  static void ForgetAbandoned();

 private:
  GpuSession(std::shared_ptr<const Driver> driver, GpuInfo gpu)
      : driver_(std::move(driver)), gpu_(std::move(gpu)) {}

  const std::shared_ptr<const Driver> driver_;
  const GpuInfo gpu_;
  Ordinal device_ = 0;
  Context context_ = nullptr;
  mutable std::atomic<bool> abandoned_{false};
};

/// Memory for the device's own use, all bits zero: on the GPU, or pinned on the host, where both
/// can reach it.
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
  std::byte* host() const { return host_; }  // null for memory on the GPU
  std::size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<const GpuSession> session_;
  Address device_ = 0;
  std::byte* host_ = nullptr;
  std::size_t bytes_ = 0;
};

/// A CUDA stream, and a word in pinned memory that says how far the stream has come.
class MarkedStream {
 public:
  /// Bytes of pinned memory for the word of a stream. The host polls it.
  static constexpr std::size_t kMarkBytes = 64;

  /// `marks`: pinned memory with room for the words of several streams, borrowed. This stream has
  /// number `index` in it. `priority`: the driver's number. `share`: the green context that the
  /// stream's kernels run in; null: none.
  static Result<std::unique_ptr<MarkedStream>> Create(std::shared_ptr<const GpuSession> session,
                                                      int priority, const OwnMemory& marks,
                                                      std::size_t index,
                                                      GreenContext share = nullptr);
  ~MarkedStream();
  MarkedStream(const MarkedStream&) = delete;
  MarkedStream& operator=(const MarkedStream&) = delete;

  Stream handle() const { return stream_; }
  /// Enqueues a mark and returns its number. `code`: the driver's answer. If it is not kSuccess,
  /// the mark may never be reached.
  std::uint32_t Mark(Code& code);
  /// True when everything before the mark is done and visible. Any thread.
  bool Reached(std::uint32_t mark) const {
    // acquire: reads after this see the bytes of copies before the mark.
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
