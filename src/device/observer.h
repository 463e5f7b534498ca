#pragma once

#include <cstdint>

#include "device/device.h"

namespace lagoon {

/// One block (or chunk of a copy) on a compute unit.
struct DeviceBlock {
  LaunchId launch{};
  std::uint32_t segment = 0;
  std::uint32_t tile = 0;
  /// Compute units first; a simulator's copy engines are numbered after them.
  std::uint32_t unit = 0;
  TimePoint placed{};          // when it began
  Body body = nullptr;         // what the kernel was loaded with
  const void* args = nullptr;  // the segment's
  const Copy* copy = nullptr;  // of a copy, else null
};

/// Sees every block of a device, for traces, meters and tests. Called in the middle of the block
/// path: it must be short, must not allocate or lock, and must not call the device. Calls of one
/// unit come one at a time and in order, those of several units at once; a device of virtual time
/// makes all of them one at a time, in order of that time.
class DeviceObserver {
 public:
  virtual ~DeviceObserver() = default;
  virtual void OnPlaced(const DeviceBlock& block) = 0;
  /// The same block at its end. `committed`: it counts; false: it left without result.
  virtual void OnEnded(const DeviceBlock& block, TimePoint at, bool committed) = 0;
};

}  // namespace lagoon
