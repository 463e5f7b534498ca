#pragma once

#include <functional>

#include "base/status.h"
#include "base/time.h"

namespace lagoon {

/// Runs `load` in a child process, for code that may crash, exit or hang: a shared library that is
/// loaded for the first time. kInvalidArgument says how the child failed ("crashes when it is
/// loaded: Segmentation fault"), also when `load` is not done after `limit`. kResourceExhausted:
/// there is no process. What `load` throws is ignored: the caller loads the library again and
/// reports its errors. Any thread.
Status TryInChild(const std::function<void()>& load, Nanoseconds limit);

}  // namespace lagoon
