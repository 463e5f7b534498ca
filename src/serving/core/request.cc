#include "serving/core/request.h"

#include <fmt/format.h>

#include <algorithm>

namespace lagoon {

std::string ShownShape(const Dims& dims) {
  constexpr std::size_t kMaxDims = 16;
  if (dims.size() <= kMaxDims) return ToString(dims);
  return fmt::format("of {} dimensions", dims.size());
}

bool HasServerPrefix(std::string_view name) {
  return name.starts_with("triton_") || name.starts_with("lagoon_");
}

bool IsServerParameter(std::string_view name) {
  return HasServerPrefix(name) ||
         std::ranges::find(kServerParameters, name) != kServerParameters.end();
}

}  // namespace lagoon
