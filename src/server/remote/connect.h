#pragma once

#include "server/remote/remote_core.h"
#include "serving/core/fleet_member.h"

namespace lagoon {

/// Members of a fleet that are servers. `options.address`, `name` and `front` are each one's own.
ConnectMember ConnectServers(RemoteOptions options);

}  // namespace lagoon
