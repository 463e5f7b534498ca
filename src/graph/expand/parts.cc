#include "graph/expand/parts.h"

#include <algorithm>

namespace lagoon {

std::vector<float> FloatsOf(const Writer& w, const std::string& attribute) {
  const auto found = w.node().attributes.find(attribute);
  if (found == w.node().attributes.end()) return {};
  const auto* const floats = std::get_if<std::vector<float>>(&found->second);
  return floats == nullptr ? std::vector<float>() : *floats;
}

Writer::Attributes AttributesWithout(const Writer& w, const std::vector<std::string>& without) {
  Writer::Attributes attributes = w.node().attributes;
  for (const std::string& name : without) attributes.erase(name);
  return attributes;
}

}  // namespace lagoon
