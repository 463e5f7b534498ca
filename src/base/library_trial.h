#pragma once

#include <functional>

#include "base/status.h"
#include "base/time.h"

namespace lagoon {

/// Runs `load` in a child process, for code that may crash, exit or hang: a shared library that is
/// loaded for the first time. Returns what `load` returns there. The caller loads the library only
/// after success, so that a library that is of no use never runs in this process.
///
/// kInvalidArgument says how the child failed ("crashes when it is loaded: Segmentation fault"),
/// also when `load` is not done after `limit`, or closes the descriptors of the process.
/// kResourceExhausted: there is no process. Processes that the child has forked end with it, unless
/// they left its group. Any thread.
Status TryInChild(const std::function<Status()>& load, Nanoseconds limit);

}  // namespace lagoon
