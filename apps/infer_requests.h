#pragma once

#include <string>

#include "device/device.h"
#include "program/compile.h"

namespace lagoon {

/// The options of `lagoon infer --requests`.
struct RequestWords {
  std::string folder;  // each sub-folder is a request: NAME.npy for each input
  double seconds = 0;  // repeats each request for so long, to measure it
  int revocations = 0;
};

/// Runs the requests of `words.folder` in the order of their names, on one model, and writes their
/// outputs to NAME.npy in their sub-folder `outputs`. Prints one line of JSON for each:
/// - `request`: the name of the folder;
/// - `new_shape_ms`: how long the request waited for its plan;
/// - `latency_ms`: the median time of a run;
/// - `revoked_identical`: with revocations, whether each revoked run gave the same bits;
/// - `error`: instead of all these, why the model refuses the request. The others still run.
/// Dies if the folder has no request or a file cannot be read or written.
void RunRequests(const RequestWords& words, ModelCompiler& compiler, Device& device);

}  // namespace lagoon
