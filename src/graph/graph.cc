#include "graph/graph.h"

#include <fmt/format.h>

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

Status RequestWork::Charge(std::size_t more) {
  if (more > max_bytes - bytes) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the request's shapes and values make a constant of {} bytes; all such "
                            "constants may take {} bytes, and {} are taken",
                            more, max_bytes, bytes));
  }
  bytes += more;
  return {};
}

Status RequestWork::CheckWanted() const {
  if (!stop.stop_requested()) return {};
  return Fail(ErrorCode::kCancelled, "no request waits for the plan any more");
}

}  // namespace lagoon
