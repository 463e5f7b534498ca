#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/import/file.h"
#include "graph/import/wire_scan.h"
#include "onnx/onnx_pb.h"

namespace lagoon {

/// A decoded ONNX file, and where its weights lie.
struct ModelFile {
  std::unique_ptr<onnx::ModelProto> model;
  std::shared_ptr<const File> file;
  std::vector<RawRange> raw_data;  // by initialiser of the graph
};

/// Reads and decodes an ONNX file, after a scan that limits the memory for decoding (`max_bytes`
/// and the limits of graph.h). The model has a graph. Weights inside the file are decoded too.
Result<ModelFile> ReadModelFile(const std::string& path, std::size_t max_bytes);

}  // namespace lagoon
