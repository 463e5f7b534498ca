#pragma once

#include <cstddef>

#include "base/status.h"
#include "graph/import/file.h"

namespace lagoon {

/// Walks the wire format of an ONNX file without building anything. Fails if the file is damaged
/// (kInvalidArgument), or if the decoded model would exceed kMaxGraphNodes, kMaxGraphEdges,
/// kMaxNameBytes or about `max_bytes` of memory (kResourceExhausted). The scan must run before
/// decoding, because two bytes on the wire can become 250 bytes in memory.
Status ScanWireFormat(const File& file, std::size_t max_bytes);

}  // namespace lagoon
