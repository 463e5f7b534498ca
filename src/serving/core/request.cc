#include "serving/core/request.h"

#include <fmt/format.h>

namespace lagoon {

std::string ShownShape(const Dims& dims) {
  constexpr std::size_t kMaxDims = 16;
  if (dims.size() <= kMaxDims) return ToString(dims);
  return fmt::format("of {} dimensions", dims.size());
}

}  // namespace lagoon
