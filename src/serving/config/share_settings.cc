#include "serving/config/share_settings.h"

#include <fmt/format.h>

#include "serving/config/parameter_value.h"

namespace lagoon {
namespace {

constexpr double kLeastPercent = 0.01;
constexpr double kLeastWeight = 1e-3, kMostWeight = 1e3;

}  // namespace

Result<bool> ReadShareParameter(std::string_view key, std::string_view value,
                                ShareSettings& settings) {
  if (key == "lagoon.share") {
    if (value == "auto") return settings.automatic = true;
    const auto percent = ParseNumber<double>(value);
    if (!percent || !(*percent >= kLeastPercent && *percent <= 100)) {
      return BadParameter(
          key, value, fmt::format("'auto' or percent of the device from {} to 100", kLeastPercent));
    }
    settings.fixed = *percent / 100;
    return true;
  }
  if (key == "lagoon.weight") {
    const auto weight = ParseNumber<double>(value);
    if (!weight || !(*weight >= kLeastWeight && *weight <= kMostWeight)) {
      return BadParameter(key, value,
                          fmt::format("a number from {} to {}", kLeastWeight, kMostWeight));
    }
    settings.weight = *weight;
    return true;
  }
  return false;
}

Status CheckShare(const ShareSettings& settings) {
  if (!settings.any() || !settings.weight) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "parameters 'lagoon.share' and 'lagoon.weight' are both set; a share may itself be "
              "a weight (`lagoon serve --shares weight`), so set one of them");
}

}  // namespace lagoon
