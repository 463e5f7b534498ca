#pragma once

#include <sys/types.h>

#include <string>

namespace lagoon {

/// For people who look at the threads of a process. Longer names are cut after 15 characters.
void NameThisThread(const std::string& name);

/// From now on the system runs a thread of this process only where no other one wants the core: the
/// idle class (SCHED_IDLE), or where the system refuses that, nice 19. Needs no permission. False:
/// the system refuses both. `thread`: the system's number.
bool GiveWay(pid_t thread);

/// The thread has the class and the nice value of the calling thread from now on, if the system
/// permits that: to root (CAP_SYS_NICE), and to whom RLIMIT_NICE allows the nice value.
void TakeBack(pid_t thread);

/// Whether GiveWay() succeeds for threads of this process.
bool ThreadsMayGiveWay();

}  // namespace lagoon
