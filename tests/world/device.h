#pragma once

// The device of the world: CPU workers that can be lost, and that come back.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "program/open_device.h"

namespace lagoon::world {

class DeviceMemory;
class LosableDevice;

/// Opens devices, one after the other or beside each other, and counts what they hold.
class Devices {
 public:
  Devices(std::uint32_t workers, std::uint64_t seed);

  Result<ComputeDevice> Open();
  /// Loses the device that serves. The next `failures` attempts to open one fail. False: none
  /// serves.
  bool Lose(int failures);

  /// Devices that are open and serve.
  std::size_t Serving();
  bool AllClosed();
  /// The ranges of the shares of the device that serves. A queue that is added gets the share of
  /// one that was removed, so that names say nothing.
  std::vector<UnitRange> Shares();
  /// Kernel handles beyond one for each body: what loading again costs for ever.
  std::int64_t SurplusHandles() const { return surplus_.load(); }
  /// Buffers that are not freed.
  std::int64_t Buffers() const;
  /// Streams, shares and guards that were ever created: a device keeps them.
  std::int64_t Created() const { return created_.load(); }

 private:
  friend class DeviceMemory;
  friend class LosableDevice;

  const std::uint32_t workers_;
  const std::uint64_t seed_;
  const std::shared_ptr<DeviceMemory> memory_;
  Mutex mutex_;
  std::vector<LosableDevice*> devices_ GUARDED_BY(mutex_);
  int failures_ GUARDED_BY(mutex_) = 0;
  std::atomic<std::uint64_t> loads_{0};
  std::atomic<std::int64_t> surplus_{0}, created_{0};
};

}  // namespace lagoon::world
