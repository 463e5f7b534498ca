#pragma once

#include <cstddef>
#include <functional>

#include "base/status.h"

namespace lagoon::bench {

/// Calls `task(i)` for each i below `count`, in so many threads, of which the caller's is one.
/// After an error no further call begins; one of the errors is returned.
Status ForEach(std::size_t count, int threads, const std::function<Status(std::size_t)>& task);

}  // namespace lagoon::bench
