#pragma once

// A core over a repository of models on one device, with one dispatcher.

#include <memory>

#include "base/status.h"
#include "serving/core/inference.h"
#include "serving/core_options.h"

namespace lagoon {

/// Loads the models of the repository. A model that fails to load is listed with the reason and
/// does not affect the others. The core has every facet but a fleet.
///
/// When the device is lost, requests in flight are answered kUnavailable, and so are all requests
/// that come until the device is open again and the models are loaded onto it. After a loss,
/// statistics start anew and the trace has ended.
///
/// kNotFound when the repository does not exist; kInvalidArgument when it cannot be read; else the
/// errors of MakeScheduler() and OpenDevice().
Result<std::unique_ptr<Inference>> OpenCore(const CoreOptions& options);

}  // namespace lagoon
