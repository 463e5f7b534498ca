#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "graph/onnx_model.h"
#include "serving/core/inference.h"

namespace lagoon::bench {

using Answer = Result<InferResponse>;

/// A request with values of its own: ones for integers, which are valid ids and masks, and random
/// floats.
InferRequest RequestOf(const OnnxModel& model, const std::string& name, const GraphInputs& shapes);

/// Sends the request now, and waits for its answer.
Answer Ask(Inference& core, InferRequest request);

/// The models of a repository on a CPU. `workers`: 0: one per core.
Result<std::unique_ptr<Inference>> Serve(const std::string& repository,
                                         const std::string& scheduler, std::uint32_t workers);

}  // namespace lagoon::bench
