#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/telemetry/span_exporter.h"

namespace lagoon {

/// Where spans of requests go: --otlp, or tritonserver's --trace-config.
struct SpanWords {
  std::string url;            // empty: nowhere
  std::uint64_t rate = 1000;  // TracedCore
  std::vector<std::pair<std::string, std::string>> resource;
  bool asked = false;  // --trace-config was given
  bool off = false;    // with level=OFF
};

/// Adds the options; what is not served ends the command with a message.
void AddSpans(CLI::App& command, SpanWords& spans);
/// Null: no spans are wanted. Dies if the URL is none.
std::unique_ptr<SpanExporter> OpenSpans(const SpanWords& spans);

}  // namespace lagoon
