#pragma once

#include "bench/in_process/in_process.h"

namespace lagoon::bench {

/// The plug-in by others' tests: the corpus and ONNX's node tests. RunInProcess() says the metrics.
Status JudgePlugin(const InProcessOptions& options, Report& report);

}  // namespace lagoon::bench
