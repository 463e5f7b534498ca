#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace lagoon {

/// Writes the external data of a model that came without it (models/skeleton.py makes such files).
/// A weight whose doc_string is "normal MEAN DEVIATION" gets elements of that distribution. The
/// result is the same on every machine: the seed is the weight's position in the file. fp32 only.
/// The data files lie beside the model, under the names that the model gives; existing files are
/// overwritten. Returns the bytes written, 0 for a model that contains its weights.
Result<std::size_t> MakeRandomWeights(const std::string& model_file);

}  // namespace lagoon
