#pragma once

#include <cstddef>
#include <string>

#include "base/status.h"

namespace lagoon {

/// Writes the external data of a model that came without it (models/skeleton.py makes such files):
/// a weight whose doc_string is "normal MEAN DEVIATION" gets elements of that distribution. The
/// same file gets the same bytes on every machine: a weight's number in the file is the seed. fp32
/// only. The files lie beside the model, under the names that it gives; what was there is lost.
/// Returns the bytes written, 0 for a model with its weights inside.
Result<std::size_t> MakeRandomWeights(const std::string& model_file);

}  // namespace lagoon
