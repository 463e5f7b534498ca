#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "graph/graph.h"

namespace lagoon {

/// ImportOnnx for each of `batches`, from one reading of the file; see LoadGraphs. May throw.
Result<std::vector<Graph>> ImportBatches(const std::string& path,
                                         std::span<const std::int64_t> batches,
                                         const ImportOptions& options);

}  // namespace lagoon
