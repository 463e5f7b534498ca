#include "plan/plan.h"

namespace lagoon {

std::optional<std::size_t> LoadedPlan::SizeFor(std::int64_t batch) const {
  for (std::size_t size = 0; size < sizes(); ++size) {
    if (at(size).batch == batch) return size;
  }
  return std::nullopt;
}

}  // namespace lagoon
