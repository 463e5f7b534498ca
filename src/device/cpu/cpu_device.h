#pragma once

#include <memory>

#include "base/status.h"
#include "device/device.h"

namespace lagoon {

struct CpuDeviceOptions {
  std::uint32_t workers = 0;           // compute units; 0: one per core that this process may use
  bool pin = false;                    // binds worker i to core i
  std::size_t memory_limit_bytes = 0;  // 0: the machine's memory
  CheckProbe* probe = nullptr;         // tests only: called at every guard check of every block
  /// Tests only: every launch runs as if it were Launch::background, on threads of normal priority.
  bool all_background = false;
};

/// The cores of this machine as a Device. A worker thread is a compute unit; a second one, of the
/// operating system's idle class, is its background. A free worker takes the best-ranked launch
/// that may run. A kernel's last commit makes the launches that depend on the kernel runnable,
/// without the dispatcher.
Result<std::unique_ptr<Device>> CreateCpuDevice(const CpuDeviceOptions& options);

/// Whether this system has threads of lower priority for the background. False: launches of the
/// background compete with all others for the cores.
bool BackgroundGivesWay();

}  // namespace lagoon
