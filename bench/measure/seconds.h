#pragma once

#include <chrono>

#include "base/time.h"

namespace lagoon::bench {

/// The nearest duration. `seconds`: below 292 years.
inline Nanoseconds FromSeconds(double seconds) {
  return std::chrono::round<Nanoseconds>(std::chrono::duration<double>(seconds));
}

}  // namespace lagoon::bench
