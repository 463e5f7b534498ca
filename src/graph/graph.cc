#include "graph/graph.h"

#include <utility>

namespace lagoon {
namespace {

template <typename T>
T Get(const Node& node, const std::string& attribute, T otherwise) {
  const auto found = node.attributes.find(attribute);
  if (found == node.attributes.end()) return otherwise;
  const T* value = std::get_if<T>(&found->second);
  return value == nullptr ? otherwise : *value;
}

}  // namespace

std::int64_t Node::Int(const std::string& attribute, std::int64_t otherwise) const {
  return Get(*this, attribute, otherwise);
}

float Node::Float(const std::string& attribute, float otherwise) const {
  return Get(*this, attribute, otherwise);
}

std::string Node::String(const std::string& attribute, std::string otherwise) const {
  return Get(*this, attribute, std::move(otherwise));
}

std::vector<std::int64_t> Node::Ints(const std::string& attribute,
                                     std::vector<std::int64_t> otherwise) const {
  return Get(*this, attribute, std::move(otherwise));
}

}  // namespace lagoon
