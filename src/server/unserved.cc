#include "server/unserved.h"

#include <fmt/format.h>

#include <array>

#include "base/text.h"

namespace lagoon {
namespace {

constexpr std::array kUnserved = {
    UnservedRow{
        "model_repository", "repository", "Repository",
        "clients load and unload models with `lagoon serve --model-control explicit` alone"},
};

constexpr std::string_view kService = "/inference.GRPCInferenceService/";

}  // namespace

std::span<const UnservedRow> UnservedExtensions() { return kUnserved; }

std::string_view UnservedExtensionOfRpc(std::string_view method) {
  if (!method.starts_with(kService)) return "";
  method.remove_prefix(kService.size());
  for (const UnservedRow& extension : kUnserved) {
    if (!extension.method.empty() && method.starts_with(extension.method)) return extension.name;
  }
  return "";
}

std::string UnservedMessage(std::string_view extension) {
  for (const UnservedRow& row : kUnserved) {
    if (row.name != extension) continue;
    return fmt::format("Triton's extension '{}' is not served; {}", row.name, row.instead);
  }
  return fmt::format("Triton's extension '{}' is not served", extension);
}

namespace {

Error OfMembers(std::string_view what) {
  return {
      ErrorCode::kUnimplemented,
      fmt::format("{} of the members' devices can be seen and changed at each member only", what)};
}

}  // namespace

Error NoScheduler() { return OfMembers("the scheduler"); }

Error NoShares() { return OfMembers("shares"); }

Error NoModelControl(bool fleet) {
  return {ErrorCode::kUnimplemented,
          fleet
              ? "Triton's extension 'model_repository' is not served: the placer of this server's "
                "fleet loads and unloads models, or each member keeps those that it has"
              : UnservedMessage("model_repository")};
}

Error NoRepository(std::string_view model, std::string_view change) {
  return {ErrorCode::kUnimplemented,
          fmt::format("model '{}' cannot be {}: the set of models is fixed", model, change)};
}

Error NoFleet() {
  return {ErrorCode::kUnimplemented,
          "the server serves one device; `lagoon serve --fleet` serves several"};
}

Error NoFleetFor(std::string_view what) {
  return {ErrorCode::kUnimplemented,
          fmt::format("there is no use for {}: {}", what, NoFleet().message)};
}

}  // namespace lagoon
