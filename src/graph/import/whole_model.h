#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "graph/onnx_model.h"

namespace lagoon {

/// A model that ImportOptions::engine can run as a whole, where Lagoon cannot. `inner`: the model
/// as Lagoon reads it, which is tried first; null if reading it failed with `why`. Fails with `why`
/// if there is no `inner` and the engine does not take the file either.
Result<std::unique_ptr<OnnxModel>> WithWholeModel(std::unique_ptr<OnnxModel> inner,
                                                  const std::string& path,
                                                  const ImportOptions& options, Error why);

}  // namespace lagoon
