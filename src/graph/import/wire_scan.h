#pragma once

#include <cstddef>
#include <vector>

#include "base/status.h"
#include "graph/import/file.h"

namespace lagoon {

/// Where the raw_data of an initialiser lies in the file. No bytes if it has none.
struct RawRange {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Walks the wire format of an ONNX file without building anything. Fails if the file is damaged
/// (kInvalidArgument), or if the decoded model would exceed kMaxGraphNodes, kMaxGraphEdges,
/// kMaxNameBytes or about `max_bytes` of memory (kResourceExhausted). The scan must run before
/// decoding, because two bytes on the wire can become 250 bytes in memory. `raw_data`: null, or
/// gets one entry per initialiser of the graph, in the order of the file.
Status ScanWireFormat(const File& file, std::size_t max_bytes,
                      std::vector<RawRange>* raw_data = nullptr);

}  // namespace lagoon
