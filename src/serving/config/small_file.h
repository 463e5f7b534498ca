#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace lagoon {

/// The bytes of a regular file. The message of an error follows the file's name: kNotFound, "cannot
/// be opened: ..."; kInvalidArgument, "is not a regular file" (never blocks on a pipe), or "has
/// more than `most` bytes".
Result<std::string> ReadSmallFile(const std::string& path, std::size_t most);

}  // namespace lagoon
