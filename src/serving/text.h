#pragma once

// How messages show names.

#include <string>
#include <string_view>
#include <vector>

#include "plan/tensor.h"

namespace lagoon {

/// The name in quotes, cut: one from a client may be of any length.
std::string Quoted(std::string_view name);

/// "'a', 'b'".
std::string QuotedNames(const std::vector<TensorSpec>& specs);

}  // namespace lagoon
