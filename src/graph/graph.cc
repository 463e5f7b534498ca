#include "graph/graph.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace lagoon {
namespace {

static_assert(std::endian::native == std::endian::little, "constants are kept as ONNX stores them");

template <typename T>
T Get(const Node& node, const std::string& attribute, T otherwise) {
  const auto found = node.attributes.find(attribute);
  if (found == node.attributes.end()) return otherwise;
  const T* value = std::get_if<T>(&found->second);
  return value == nullptr ? otherwise : *value;
}

}  // namespace

std::span<const float> Constant::floats() const {
  LAGOON_CHECK(type == DataType::kFloat32);
  return {reinterpret_cast<const float*>(bytes->data()), bytes->size() / sizeof(float)};
}

std::vector<std::int64_t> Constant::ToInt64() const {
  LAGOON_CHECK(type == DataType::kInt64 || type == DataType::kInt32);
  if (type == DataType::kInt64) {
    std::vector<std::int64_t> values(bytes->size() / sizeof(std::int64_t));
    if (!values.empty()) std::memcpy(values.data(), bytes->data(), bytes->size());
    return values;
  }
  std::vector<std::int32_t> narrow(bytes->size() / sizeof(std::int32_t));
  if (!narrow.empty()) std::memcpy(narrow.data(), bytes->data(), bytes->size());
  return {narrow.begin(), narrow.end()};
}

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
