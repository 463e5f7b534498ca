#include "serving/text.h"

#include <fmt/format.h>

namespace lagoon {

std::string Quoted(std::string_view name) {
  constexpr std::size_t kMaxShownBytes = 100;
  if (name.size() <= kMaxShownBytes) return fmt::format("'{}'", name);
  return fmt::format("'{}...' ({} bytes)", name.substr(0, kMaxShownBytes), name.size());
}

std::string QuotedNames(const std::vector<TensorSpec>& specs) {
  std::string names;
  for (const TensorSpec& spec : specs) {
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", spec.name);
  }
  return names;
}

}  // namespace lagoon
