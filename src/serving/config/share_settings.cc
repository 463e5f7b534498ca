#include "serving/config/share_settings.h"

namespace lagoon {

Status CheckShare(const ShareSettings& settings) {
  if (!settings.any() || !settings.weight) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "parameters 'lagoon.share' and 'lagoon.weight' are both set; a share may itself be "
              "a weight (`lagoon serve --shares weight`), so set one of them");
}

}  // namespace lagoon
