#pragma once

// The surface of a model that `lagoon profile --shares --save` keeps beside the profiles.

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "cluster/surface_file.h"

namespace lagoon {

/// NamedSurface::device of a surface that is measured on this device (DeviceInfo).
std::string SurfaceDevice(const std::string& name, const std::string& description,
                          std::uint32_t units);

/// Where the surface of `model` is kept in the folder of the profiles. Empty: the folder is, or the
/// name cannot be a file's.
std::string SurfacePath(const std::string& folder, const std::string& model);

/// The stored surface. `device`: SurfaceDevice(). Empty: there is none. kInvalidArgument names the
/// file, and says how it is wrong: no surface, or that of another model or device.
Result<std::optional<NamedSurface>> LoadSurface(const std::string& folder, const std::string& model,
                                                const std::string& device);

}  // namespace lagoon
