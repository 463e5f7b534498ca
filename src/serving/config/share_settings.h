#pragma once

#include <optional>

#include "base/status.h"

namespace lagoon {

/// How much of the device a model may use. At most one of both is given.
struct ShareSettings {
  bool automatic = false;        // lagoon.share is "auto": the server tunes the share
  std::optional<double> fixed;   // lagoon.share in percent: part of the device, above 0, at most 1
  std::optional<double> weight;  // lagoon.weight, for the scheduler `weighted`

  bool any() const { return automatic || fixed.has_value(); }
};

/// After all parameters have been read: whether they go together.
Status CheckShare(const ShareSettings& settings);

}  // namespace lagoon
