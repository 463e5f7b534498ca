#pragma once

#include <cstdint>

#include "device/device.h"

namespace lagoon {

/// One block (or chunk of a copy) on a compute unit.
struct DeviceBlock {
  LaunchId launch{};
  std::uint32_t tile = 0;
  /// Compute units first, then what DeviceInfo::observed_units says.
  std::uint32_t unit = 0;
  TimePoint placed{};          // when it began
  Body body = nullptr;         // what the kernel was loaded with
  const void* args = nullptr;  // argument of the launch
  const Copy* copy = nullptr;  // set if the block is a chunk of this copy; else null
};

/// Sees every block of a device: for traces, meters and tests. The device calls it in the middle of
/// the block path: a call must be short, must not allocate or lock, and must not call the device.
/// Calls for one unit come one at a time and in order; calls for several units come at the same
/// time. A device with virtual time makes all calls one at a time, in the order of that time.
class DeviceObserver {
 public:
  virtual ~DeviceObserver() = default;
  virtual void OnPlaced(const DeviceBlock& block) = 0;
  /// The same block at its end. `committed`: the tile counts as done. False: the block left without
  /// a result.
  virtual void OnEnded(const DeviceBlock& block, TimePoint at, bool committed) = 0;
};

}  // namespace lagoon
