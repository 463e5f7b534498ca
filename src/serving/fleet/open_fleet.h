#pragma once

// A fleet of this machine's devices over one repository.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serving/fleet/fleet_core.h"
#include "serving/open_core.h"

namespace lagoon {

/// "cpu:1,cpu:1,cuda:0": devices separated by commas, 2 to 64. "cpu:N" is a CPU device of N worker
/// threads, "cpu" one with a worker per core, "cuda:N" the driver's GPU number N, at most once
/// each. `base` has the other fields. kInvalidArgument names the word.
Result<std::vector<DeviceChoice>> ParseFleet(std::string_view words, const DeviceChoice& base);

/// Opens each device with a part of the repository's models: in order of names, each on the device
/// with the least memory in use. FleetOptions::models is filled from the repository: the memory of
/// a replica is taken for twice the size of the model's largest version. CPU devices share the
/// machine's memory evenly. `options.device`, `options.models` and `options.trace` are not used.
/// The errors are those of OpenCore() and name the device.
Result<std::unique_ptr<FleetCore>> OpenFleet(const CoreOptions& options,
                                             const std::vector<DeviceChoice>& devices,
                                             FleetOptions fleet);

}  // namespace lagoon
