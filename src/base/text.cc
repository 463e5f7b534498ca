#include "base/text.h"

namespace lagoon {

std::string Shown(std::string_view name) {
  constexpr std::size_t kMaxShown = 100;
  std::string shown;
  for (const char c : name.substr(0, kMaxShown)) shown += c >= ' ' && c <= '~' ? c : '?';
  if (name.size() > kMaxShown) shown += "...";
  return shown;
}

std::string Quoted(std::string_view name) { return "'" + Shown(name) + "'"; }

}  // namespace lagoon
