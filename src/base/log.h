#pragma once

#include <spdlog/spdlog.h>

#include <array>
#include <string>
#include <string_view>

/// Logging is spdlog, to stderr: spdlog::info("model '{}': loaded in {:.1f} ms", name, ms).
/// Never on the path of a request or under a lock of the dispatcher or a device.

namespace lagoon {

/// `text` on one line: a control character, such as a line break or a terminal's escape, is written
/// as \xNN.
std::string OneLine(std::string_view text);

/// Sets the format of spdlog's default logger: the time, the level, and the message on one line,
/// even if names from files or clients in the message contain line breaks. Call it before the first
/// message.
void SetUpLog();

/// Names of the levels, from the most messages to none.
inline constexpr std::array<std::string_view, 5> kLogLevels = {"debug", "info", "warning", "error",
                                                               "off"};

}  // namespace lagoon
