#pragma once

#include <memory>

#include "base/status.h"
#include "device/device.h"

namespace lagoon {

struct CpuDeviceOptions {
  std::uint32_t workers = 0;           // compute units; 0: one per core that this process may use
  bool pin = false;                    // bind worker i to core i
  std::size_t memory_limit_bytes = 0;  // 0: what the machine has
  CheckProbe* probe = nullptr;         // tests only: sees every guard check of every block
};

/// The cores of this machine as a Device: a worker thread is a compute unit. Workers pull the
/// best-ranked runnable segment; the last commit of a kernel activates what depends on it, without
/// the dispatcher.
Result<std::unique_ptr<Device>> CreateCpuDevice(const CpuDeviceOptions& options);

}  // namespace lagoon
