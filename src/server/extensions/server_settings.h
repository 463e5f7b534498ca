#pragma once

// Triton's settings of log and trace, as far as Lagoon has them: the level of the log can be read
// and set; how the server traces is decided when it starts, and can be read.

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"

namespace lagoon {

using LogValue = std::variant<bool, std::uint64_t, std::string>;
using LogSettings = std::map<std::string, LogValue>;

/// The settings as they are. Any thread.
LogSettings ReadLogSettings();
/// Sets the level of the log. One level stands for Triton's switches: what is on has all that is
/// more severe on, and any verbose level is debug's. kInvalidArgument for a setting or a value that
/// there is not, and for a switch that is to be off below one that is on; then nothing is changed.
/// Any thread.
Status ChangeLogSettings(const LogSettings& changes);

using TraceSettings = std::map<std::string, std::vector<std::string>>;

/// `tracing`: the server writes a trace.
TraceSettings ReadTraceSettings(bool tracing);
/// For clients that write back what they have read. An empty value asks for the default.
/// kInvalidArgument for a setting that there is not; kUnimplemented for another value than the
/// present one.
Status CheckTraceSettings(bool tracing, const TraceSettings& changes);

}  // namespace lagoon
