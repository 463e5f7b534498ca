#pragma once

// The words with which a server joins a fleet.

#include "base/status.h"
#include "serving/core/fleet_control.h"

namespace lagoon {

/// Whether the name and the address of a server may be those of a member. kInvalidArgument.
Status CheckJoin(const FleetJoin& join);

}  // namespace lagoon
