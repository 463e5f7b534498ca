#pragma once

#include <map>
#include <string>

#include "base/status.h"

namespace lagoon::bench {

/// What the operating system alone offers to let one program go before another.
enum class ScheduleClass { kNormal, kNice19, kIdle, kFifo };

inline const std::map<std::string, ScheduleClass> kScheduleClasses = {
    {"normal", ScheduleClass::kNormal},
    {"nice19", ScheduleClass::kNice19},
    {"idle", ScheduleClass::kIdle},
    {"fifo", ScheduleClass::kFifo}};

/// Puts the calling thread, and those that it starts, into the class. kUnavailable: the system does
/// not permit it; the message says what is needed.
Status Enter(ScheduleClass schedule_class);

/// Whether Enter(kFifo) succeeds, else its error. Changes nothing.
Status MayEnterFifo();

}  // namespace lagoon::bench
