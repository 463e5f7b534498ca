#pragma once

#include "server/remote/remote_core.h"
#include "serving/core/fleet_member.h"

namespace lagoon {

/// Members of a fleet over gRPC. `options.address`, `name` and `front` are each member's own.
ConnectMember ConnectServers(RemoteOptions options);

}  // namespace lagoon
