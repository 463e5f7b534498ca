#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace lagoon {

/// The contents of a file of a model's folder. kInvalidArgument names the file: it leads out of the
/// folder, cannot be read, or has more than `most` bytes.
Result<std::string> ReadModelFile(const std::string& folder, const std::string& file,
                                  std::size_t most);

/// For a file that code of others opens, which would wait for the writer of a pipe.
/// kInvalidArgument: `path` is there, and no regular file.
Status CheckNoPipe(const std::string& path);

}  // namespace lagoon
