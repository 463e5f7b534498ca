#pragma once

#include <functional>
#include <string>

#include "world/script.h"
#include "world/threads.h"

namespace lagoon::world {

struct WorldReport {
  ThreadReport threads;
  std::size_t requests = 0, right = 0, refused = 0;
  std::size_t changes = 0;  // of models, schedulers and shares, and losses
  std::int64_t left_allocations = 0;
};

/// Runs a server in virtual time in the folder, which is empty, while clients do what the script
/// says. Calls `violation` with the first invariant that does not hold; it must not return. Only
/// one call per process.
WorldReport RunWorld(const Script& script, const std::string& folder,
                     const std::function<void(const std::string&)>& violation);

}  // namespace lagoon::world
