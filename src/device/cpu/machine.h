#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/status.h"

namespace lagoon {

/// The cores that this process may use: its affinity mask.
std::vector<int> UsableCores();

/// How many cores' worth of time this process gets: usable cores, or less where a control group's
/// quota says so (containers). At least 1.
std::uint32_t UsableCoreCount();

/// "Intel(R) Xeon(R) ...", or "unknown processor".
std::string ProcessorName();

/// Binds `thread` to `core`. kInvalidArgument names the core.
Status PinThread(std::jthread& thread, int core);

/// At most 15 characters.
void NameThisThread(const std::string& name);

}  // namespace lagoon
