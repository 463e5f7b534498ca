#pragma once

// Trained networks in a file:
//   bytes 0-7    "LGNETS\0" and the version of the format, 1
//   8-15         the hash of what the networks were trained for
//   16-23        the number of networks
//   each network: the number of its layers' sizes, the sizes, and its parameters as float32
//   last 8       the hash of all bytes before
// Numbers have 8 bytes, all little-endian.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "learn/mlp.h"

namespace lagoon::learn {

/// FNV-1a.
std::uint64_t HashOf(std::string_view bytes);

/// The bytes of a weights file. `meaning`: hash of the features and actions that the networks know.
std::string EncodeWeights(std::uint64_t meaning, const std::vector<const Mlp*>& networks);
/// kInvalidArgument names `name` and what is wrong: not a weights file, another version of the
/// format, weights for other features (another `meaning`), cut off, or damaged.
Result<std::vector<Mlp>> DecodeWeights(const std::string& name, std::string_view bytes,
                                       std::uint64_t meaning);

/// Writes a file beside `path`, then renames it. kUnavailable names the file.
Status WriteFileWhole(const std::string& path, std::string_view bytes);
/// kNotFound names the file.
Result<std::string> ReadFileWhole(const std::string& path);

}  // namespace lagoon::learn
