#pragma once

#include <string_view>

namespace lagoon {

/// The file models/placement/NAME.weights as it was when the program was built; empty if there was
/// none.
std::string_view BuiltInWeights(std::string_view name);

}  // namespace lagoon
