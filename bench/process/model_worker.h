#pragma once

#include <cstdint>
#include <istream>
#include <ostream>
#include <string>

#include "base/status.h"

namespace lagoon::bench {

struct ModelWorkerOptions {
  std::string file;           // an ONNX file
  std::uint32_t workers = 1;  // 0: one per core
  std::int64_t batch = 1;     // size of dimensions that the file calls "batch"
};

/// Lagoon with one model in this process, driven line by line as other engines are: reads one JSON
/// object per line from `in` and answers each with one line on `out`, as
/// bench/comparators/comparator_worker.py says. It knows {"cmd": "info"}, "run" and "quit". Returns
/// at the end of `in` or after "quit"; if the model cannot be loaded, answers with the reason once
/// and returns it. One thread; the device's workers run in the calls.
Status RunModelWorker(const ModelWorkerOptions& options, std::istream& in, std::ostream& out);

}  // namespace lagoon::bench
