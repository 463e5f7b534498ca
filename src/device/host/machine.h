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

/// From now on the system runs a thread of this process only where no other one wants the core: the
/// idle class (SCHED_IDLE), or where the system refuses that, nice 19. Needs no permission. False:
/// the system refuses both. `thread`: the system's number.
bool GiveWay(pid_t thread);

/// The thread has the class and the nice value of the calling thread from now on, if the system
/// permits that: to root (CAP_SYS_NICE), and to whom RLIMIT_NICE allows the nice value.
void TakeBack(pid_t thread);

/// Whether GiveWay() succeeds for threads of this process.
bool ThreadsMayGiveWay();

/// How long the thread of this process was ready to run while others had its core, since it began.
/// 0 where the system does not tell. Takes some microseconds. `thread`: the system's number.
Nanoseconds TimeOffCore(pid_t thread);

/// Longer names are cut after 15 characters.
void NameThisThread(const std::string& name);

}  // namespace lagoon
