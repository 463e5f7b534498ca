#pragma once

#include <string>
#include <string_view>

namespace lagoon {

/// A name from a file, made fit for a message: cut after 100 bytes, with '?' for each byte outside
/// of printable ASCII.
std::string Shown(std::string_view name);

/// The same in single quotes.
std::string Quoted(std::string_view name);

}  // namespace lagoon
