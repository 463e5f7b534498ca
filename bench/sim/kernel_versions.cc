#include "bench/sim/kernel_versions.h"

#include <algorithm>
#include <array>

namespace lagoon {
namespace {

constexpr Nanoseconds kLeastTime = std::chrono::microseconds(1);
constexpr std::uint32_t kWarp = 32;

struct Cut {
  std::uint32_t shorter = 1;
  std::uint32_t more_work_percent = 0;
};
constexpr std::array kCuts{Cut{1, 0}, Cut{2, 4}, Cut{4, 10}, Cut{8, 20}};
constexpr std::array kNarrower{1U, 2U, 4U};
constexpr std::uint32_t kMostPieces = 8;  // of a block: `shorter` times `narrower`

SimKernelVersion Version(const SimModelKernel& kernel, Cut cut, std::uint32_t narrower) {
  SimKernelVersion version{.shorter = cut.shorter,
                           .narrower = narrower,
                           .blocks = kernel.blocks * cut.shorter * narrower,
                           .block = kernel.block,
                           .time = kernel.time * (100 + cut.more_work_percent) / 100};
  BlockDemand& block = version.block;
  block.time = block.time * (100 + cut.more_work_percent) / (100 * cut.shorter);
  block.threads /= narrower;
  block.shared_bytes /= narrower;
  block.use_permille = (block.use_permille + narrower - 1) / narrower;
  block.memory_bytes /= std::uint64_t{cut.shorter} * narrower;
  return version;
}

}  // namespace

std::vector<SimKernelVersion> VersionsOf(const SimModelKernel& kernel) {
  std::vector<SimKernelVersion> versions;
  for (const std::uint32_t narrower : kNarrower) {
    for (const Cut& cut : kCuts) {
      if (cut.shorter * narrower > kMostPieces) continue;
      const SimKernelVersion version = Version(kernel, cut, narrower);
      const bool whole = kernel.block.threads == 0;  // a block fills its unit, however it is cut
      const bool own = cut.shorter == 1 && narrower == 1;
      const bool too_narrow = narrower > 1 && (whole || version.block.threads < kWarp);
      if (!own && (too_narrow || (cut.shorter > 1 && version.block.time < kLeastTime))) continue;
      versions.push_back(version);
    }
  }
  return versions;
}

}  // namespace lagoon
