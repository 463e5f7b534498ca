#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/status.h"
#include "onnx/onnx_pb.h"

namespace lagoon {

/// Reads and decodes an ONNX file, after a scan that limits the memory for decoding (`max_bytes`
/// and the limits of graph.h). The model has a graph. Weights inside the file are decoded too.
Result<std::unique_ptr<onnx::ModelProto>> ReadModelFile(const std::string& path,
                                                        std::size_t max_bytes);

}  // namespace lagoon
