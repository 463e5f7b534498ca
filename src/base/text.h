#pragma once

#include <string>
#include <string_view>

namespace lagoon {

/// A name out of a file, fit for a message: cut after 100 bytes, bytes outside printable ASCII as
/// '?'.
std::string Shown(std::string_view name);

/// The same in single quotes.
std::string Quoted(std::string_view name);

}  // namespace lagoon
