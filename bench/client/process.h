#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace lagoon::bench {

/// Runs a program to its end, without a shell: every word reaches the program as it is. The first
/// word is the program, a path or a name that PATH finds. Returns the exit status. Fails with
/// kNotFound when the program cannot be started, with kInternal when a signal ends the program.
/// Both messages name the program.
Result<int> RunToEnd(std::vector<std::string> words);

}  // namespace lagoon::bench
