#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/inspect/idempotence.h"
#include "base/status.h"

namespace lagoon {

inline constexpr std::size_t kMaxTraceOperations = 1 << 16;
inline constexpr std::size_t kMaxTraceRanges = 1 << 20;  // limit for all operations together

/// Parses the access trace of an engine whose kernels Lagoon did not compile (form:
/// docs/design/idempotence.md). Errors begin with `name` and name the operation, the field and the
/// value. What the trace says of restarts must be true (CheckClaims).
Result<std::vector<AccessSet>> ParseTrace(std::string_view json, const std::string& name);

/// The same from a file. kNotFound if the file cannot be read.
Result<std::vector<AccessSet>> ReadTraceFile(const std::string& path);

}  // namespace lagoon
