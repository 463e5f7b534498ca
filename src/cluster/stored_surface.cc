#include "cluster/stored_surface.h"

#include <fmt/format.h>

#include <filesystem>
#include <tuple>
#include <utility>

#include "base/text.h"

namespace lagoon {

std::string SurfaceDevice(const std::string& name, const std::string& description,
                          std::uint32_t units) {
  const std::string device = description.empty() ? name : fmt::format("{}, {}", name, description);
  return fmt::format("{}, {} unit{}", device, units, units == 1 ? "" : "s");
}

std::string SurfacePath(const std::string& folder, const std::string& model) {
  const bool is_name = !model.empty() && model.find('/') == std::string::npos;
  return folder.empty() || !is_name ? std::string() : folder + "/" + model + ".surface.json";
}

Result<std::optional<NamedSurface>> LoadSurface(const std::string& folder, const std::string& model,
                                                const std::string& device) {
  const std::string path = SurfacePath(folder, model);
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return std::nullopt;
  if (!std::filesystem::is_regular_file(path, ignored)) {  // a pipe would never end
    return Fail(ErrorCode::kInvalidArgument, fmt::format("surface '{}': is not a file", path));
  }
  LAGOON_ASSIGN_OR_RETURN(NamedSurface surface, ReadSurfaceFile(path));
  for (const auto& [what, found, wanted] :
       {std::tuple{"model", surface.model, model}, std::tuple{"device", surface.device, device}}) {
    if (found == wanted) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the surface is of the {} {}, not of {}; measure it here with "
                            "`lagoon profile --shares --save`, or delete the file",
                            path, what, Quoted(found), Quoted(wanted)));
  }
  return std::optional(std::move(surface));
}

}  // namespace lagoon
