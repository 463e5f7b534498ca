#pragma once

#include <spdlog/spdlog.h>

/// Logging is spdlog, to stderr: spdlog::info("model '{}': loaded in {:.1f} ms", name, ms).
/// Never on the path of a request or under a lock of the dispatcher or a device.
