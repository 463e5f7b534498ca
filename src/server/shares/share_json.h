#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "base/time.h"
#include "serving/core/share_control.h"

namespace lagoon {

// Bodies of requests and answers at /v2/shares and /v2/models/MODEL/resize (docs/guide/shares.md).

/// `now`: of the report; moves are told by how long ago they were.
std::string SharesJson(const SharesReport& report, TimePoint now);

/// What another server has told: the report of SharesJson() without changes, units and SLOs of
/// models. kInvalidArgument says what is wrong with `body`, as a part above 100 % or more than
/// kMostTold models. `before`: an earlier report of that server; surfaces that have not changed are
/// taken from it.
Result<SharesReport> ParseSharesReport(std::string_view body, const SharesReport& before = {});
inline constexpr std::size_t kMostTold = 4096;

/// Takes {"tuning": BOOL, "trigger_percent": NUMBER, "hold_down_s": NUMBER}, at least one of them.
/// kInvalidArgument says what is wrong with `body`.
Result<SharesRules> ParseSharesJson(std::string_view body);

/// Takes {"units": NUMBER}, {"percent": NUMBER}, {"share": "auto"} or {"share": "none"}.
/// kInvalidArgument says what is wrong with `body`.
Result<ShareWanted> ParseResizeJson(std::string_view body);
/// The body from which ParseResizeJson() reads `wanted`.
std::string ResizeJson(const ShareWanted& wanted);

}  // namespace lagoon
