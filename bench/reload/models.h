#pragma once

// The models of `lagoon bench reload`, which writes them itself.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/status.h"
#include "plan/tensor.h"

namespace lagoon::bench {

inline constexpr std::string_view kTower = "tower";  // [rows,32,256] -> six products and Relu
inline constexpr std::string_view kMeans = "means";  // [rows,3,64,64] -> means of channels
inline constexpr std::string_view kLine = "line";    // [n,m], any size -> 2x + 1

/// Writes them into a repository:
/// - tower: takes milliseconds, is real-time, and joins up to 8 rows into a batch
/// - means: takes microseconds, and joins up to 16 rows into a batch
/// - line: best-effort, without a batch dimension
/// Eight requests may wait for each.
Status WriteReloadModels(const std::string& repository);

/// The sizes of an input with so many rows. `line` gets 20 columns.
Dims InputDims(std::string_view model, std::int64_t rows);
/// Eighths from -8 to 8, which are short and exact as JSON.
std::vector<float> RandomEighths(std::size_t count, Random& random);

}  // namespace lagoon::bench
