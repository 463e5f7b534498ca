#pragma once

// What the server logs about plans that cannot be made.

#include <string>
#include <vector>

#include "base/time.h"

namespace lagoon::world {

/// An attempt to make a plan, which failed.
struct FailedAttempt {
  TimePoint at;
  std::string text;  // names the model and the shapes
};

/// From now on, the log of this process goes nowhere but to FailedAttempts().
void ListenToLog();

/// All attempts so far, in order.
std::vector<FailedAttempt> FailedAttempts();

}  // namespace lagoon::world
