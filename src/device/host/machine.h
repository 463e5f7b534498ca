#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace lagoon {

/// The cores that this process may use: its affinity mask.
std::vector<int> UsableCores();

/// Number of cores' worth of time that this process gets: its usable cores, or less if a control
/// group (container) has a smaller quota. At least 1.
std::uint32_t UsableCoreCount();

/// "Intel(R) Xeon(R) ...", or "unknown processor".
std::string ProcessorName();

/// Binds `thread` to `core`. kInvalidArgument names the core.
Status PinThread(std::jthread& thread, int core);

/// How long the thread of this process was ready to run while others had its core, since it began.
/// 0 where the system does not tell. Takes some microseconds and allocates nothing. `thread`: the
/// system's number.
Nanoseconds TimeOffCore(pid_t thread);

}  // namespace lagoon
