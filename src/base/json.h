#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace lagoon {

/// `json` as text, with every piece of a string that is not UTF-8 replaced by U+FFFD. The library's
/// own dump() throws on such a string, and names of files and tensors may hold anything. All of
/// Lagoon writes JSON through this function (tools/check_layers.py).
///
/// `indent`: spaces per level; -1 writes one line. `ascii`: other characters as \uXXXX, so that the
/// text may be cut anywhere.
template <typename BasicJson>
std::string DumpJson(const BasicJson& json, int indent = -1, bool ascii = false) {
  return json.dump(indent, ' ', ascii, BasicJson::error_handler_t::replace);
}

/// The same for one string, quotes included.
inline std::string JsonString(std::string_view text) { return DumpJson(nlohmann::json(text)); }

}  // namespace lagoon
