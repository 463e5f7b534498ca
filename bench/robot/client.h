#pragma once

// A client of `lagoon bench robot`: a process of its own, on the same cores as everything else.

#include <string>

namespace lagoon::bench {

/// Reads commands from stdin and answers on stdout (bench/client/line_process.h) until stdin ends.
/// Returns the exit status. The first command says where the models are:
///   {"transport": "grpc", "port": N, "streams": [STREAM...]}           or "http"
///   {"transport": "process", "repository": FOLDER, "scheduler": NAME, "workers": N,
///    "streams": [STREAM...]}
/// where "process" opens the models in this process. A STREAM is
///   {"model": NAME, "connections": N, "inputs": [{"name", "type", "dims", "file"}]}
/// The answer comes when each stream has made some requests. Then, for each window,
///   {"streams": [null, {"start_ns": T, "arrivals_us": [...]}, {"start_ns": T, "end_ns": U}]}
/// A stream sends nothing, or a request at each arrival (ascending offsets from T; a late one at
/// once), or one request after the other from T until U. Answer: for each stream null or
///   {"latencies_us": [...], "ends_us": [...], "failed": N, "error": TEXT}
/// with the time of each answered request from its intended arrival, and when its answer came as an
/// offset from T; how many requests have failed, and why the last one has.
int RunRobotClient();

}  // namespace lagoon::bench
