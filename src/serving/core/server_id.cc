#include "serving/core/server_id.h"

#include <fmt/format.h>

#include <cstdint>
#include <random>

#include "serving/core/fleet_control.h"
#include "serving/core/inference.h"

namespace lagoon {

std::string NewServerId() {
  std::random_device random;
  const std::uint64_t id = std::uint64_t{random()} << 32 | random();
  return fmt::format("{:016x}", id);
}

bool IsServerId(std::string_view text) {
  return text.size() == kServerIdBytes && text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::string ServerIdOf(Inference& core) {
  const FleetControl* const fleet = core.fleet();
  return fleet != nullptr ? fleet->Fronts().front() : NewServerId();
}

}  // namespace lagoon
