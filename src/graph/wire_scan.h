#pragma once

#include <cstddef>

#include "base/status.h"
#include "graph/file.h"

namespace lagoon {

/// Walks an ONNX file's wire format without building anything, and fails if it is damaged
/// (kInvalidArgument) or if the decoded model would break kMaxGraphNodes, kMaxGraphEdges,
/// kMaxNameBytes or take more than about `max_bytes` (kResourceExhausted). Decoding must not come
/// first: two bytes on the wire can make 250 in memory.
Status ScanWireFormat(const File& file, std::size_t max_bytes);

}  // namespace lagoon
