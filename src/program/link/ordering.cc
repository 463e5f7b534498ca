#include "program/link/ordering.h"

#include <algorithm>

#include "base/check.h"

namespace lagoon {

Ordering::Ordering(std::span<const std::vector<std::uint32_t>> deps)
    : ancestors_(deps.size(), std::vector<std::uint64_t>((deps.size() + 63) / 64)) {
  for (std::size_t i = 0; i < deps.size(); ++i) {
    for (const std::uint32_t dep : deps[i]) {
      LAGOON_CHECK(dep < i);
      for (std::size_t word = 0; word < ancestors_[i].size(); ++word) {
        ancestors_[i][word] |= ancestors_[dep][word];
      }
      ancestors_[i][dep / 64] |= std::uint64_t{1} << (dep % 64);
    }
  }
}

std::vector<std::vector<std::uint32_t>> ReduceDeps(
    std::span<const std::vector<std::uint32_t>> deps) {
  const Ordering ordering(deps);
  std::vector<std::vector<std::uint32_t>> reduced(deps.size());
  for (std::size_t i = 0; i < deps.size(); ++i) {
    for (const std::uint32_t dep : deps[i]) {
      const bool implied = std::any_of(deps[i].begin(), deps[i].end(), [&](std::uint32_t other) {
        return ordering.Precedes(dep, other);
      });
      if (!implied) reduced[i].push_back(dep);
    }
    std::sort(reduced[i].begin(), reduced[i].end());
    reduced[i].erase(std::unique(reduced[i].begin(), reduced[i].end()), reduced[i].end());
  }
  return reduced;
}

}  // namespace lagoon
