#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "program/idempotence.h"

namespace lagoon {

inline constexpr std::size_t kMaxTraceOperations = 1 << 16;
inline constexpr std::size_t kMaxTraceRanges = 1 << 20;  // of all operations together

/// Reads a memory trace of an engine whose kernels we did not compile
/// (docs/design/idempotence.md has the form). Errors name the operation, the field and the value;
/// `name` is put before them.
Result<std::vector<AccessSet>> ParseTrace(std::string_view json, const std::string& name);

/// The same from a file. kNotFound: it cannot be read.
Result<std::vector<AccessSet>> ReadTraceFile(const std::string& path);

}  // namespace lagoon
