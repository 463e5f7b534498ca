#pragma once

#include <cstdint>

#include "device/device.h"

namespace lagoon {

/// One block (or chunk of a copy) on a simulated device.
struct SimBlock {
  LaunchId launch{};
  std::uint32_t segment = 0;
  std::uint32_t tile = 0;
  std::uint32_t unit = 0;      // of a copy: its engine
  Body body = nullptr;         // what the kernel was loaded with; the simulator does not call it
  const void* args = nullptr;  // the segment's
  const Copy* copy = nullptr;  // of a copy, else null
};

/// Sees every block, for traces and tests. Called while the device is locked, in order of virtual
/// time: it must not call the device.
class SimObserver {
 public:
  virtual ~SimObserver() = default;
  virtual void OnPlaced(const SimBlock& block, TimePoint at) = 0;
  virtual void OnEnded(const SimBlock& block, TimePoint at, bool committed) = 0;
};

/// What a revocation does to running blocks.
enum class SimAbort : std::uint8_t {
  kCheck,  // they leave at their next guard check; what is committed stays (the block protocol)
  kKill,   // they are killed at once, and a kernel that is not complete starts anew (REEF 4.3)
};

}  // namespace lagoon
