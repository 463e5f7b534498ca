#include "serving/core/request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lagoon {

std::string ShownShape(const Dims& dims) {
  constexpr std::size_t kMaxDims = 16;
  if (dims.size() <= kMaxDims) return ToString(dims);
  return fmt::format("of {} dimensions", dims.size());
}

bool IsServerParameter(std::string_view name) {
  constexpr std::array<std::string_view, 12> kNames = {"priority",
                                                       "timeout",
                                                       "binary_data_output",
                                                       "binary_data_size",
                                                       "binary_data",
                                                       "classification",
                                                       "sequence_id",
                                                       "sequence_start",
                                                       "sequence_end",
                                                       "shared_memory_region",
                                                       "shared_memory_byte_size",
                                                       "shared_memory_offset"};
  return name.starts_with("triton_") || name.starts_with("lagoon_") ||
         std::ranges::find(kNames, name) != kNames.end();
}

}  // namespace lagoon
