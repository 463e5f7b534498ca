#pragma once

// The words with which a server joins a fleet.

#include <string_view>

#include "base/status.h"
#include "serving/core/fleet_control.h"

namespace lagoon {

/// Whether the text is HOST:PORT: a name, an IPv4 address or an IPv6 address in brackets, and a
/// port without zeros before it.
bool IsAddress(std::string_view text);

/// Whether the name and the address of a server may be those of a member. kInvalidArgument.
Status CheckJoin(const FleetJoin& join);

}  // namespace lagoon
