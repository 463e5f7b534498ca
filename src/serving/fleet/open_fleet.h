#pragma once

// A fleet of this machine's devices over one repository.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serving/fleet/fleet_core.h"
#include "serving/open_core.h"

namespace lagoon {

/// What --fleet says.
struct FleetWords {
  std::vector<DeviceChoice> devices = {};  // of this machine
  std::vector<std::string> servers = {};   // host:port of their gRPC
  bool open = false;                       // servers join later
};

/// "cpu:1,cuda:0,10.0.0.2:8001": devices and servers separated by commas, 2 to 64, or 1 or more if
/// there are servers. "cpu:N" is a CPU device of N worker threads, "cpu" one with a worker per
/// core, "cuda:N" the driver's GPU number N, at most once each; another "HOST:PORT" is a server.
/// "open" alone: none at first. `base` has the other fields of devices. kInvalidArgument names the
/// word.
Result<FleetWords> ParseFleet(std::string_view words, const DeviceChoice& base);

/// Opens each device with a part of the repository's models: in order of names, each on the device
/// with the least memory in use. Servers join under their addresses. FleetOptions::models is filled
/// from the repository, if there is one: the memory of a replica is taken for twice the size of the
/// model's largest version. CPU devices share the machine's memory evenly. `options.device`,
/// `options.models` and `options.trace` are not used. The errors are those of OpenCore() and name
/// the device.
Result<std::unique_ptr<FleetCore>> OpenFleet(const CoreOptions& options, const FleetWords& words,
                                             FleetOptions fleet);

}  // namespace lagoon
