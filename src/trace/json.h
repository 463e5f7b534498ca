#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "trace/timeline.h"

namespace lagoon {

/// Writes a timeline in pieces through `write`, as JSON of the trace event format, which
/// https://ui.perfetto.dev opens. docs/guide/tracing.md says what the rows and fields mean.
/// `version`: of this program.
void WriteTraceJson(const TraceRecorder& recorder, const Timeline& timeline,
                    const std::string& version, const std::function<void(std::string_view)>& write);

}  // namespace lagoon
