#include "bench/sim/kernel_versions.h"

#include <gmock/gmock.h>

#include "bench/sim/kernel_lists.h"

namespace lagoon {
namespace {

using std::chrono::microseconds;
using ::testing::Each;
using ::testing::Truly;

SimModelKernel Kernel(Nanoseconds block, std::uint32_t threads) {
  SimModelKernel kernel{.blocks = 30};
  kernel.block = {.time = block, .threads = threads, .registers_per_thread = 64};
  kernel.block.use_permille = 1000;
  kernel.time = block;
  return kernel;
}

TEST(KernelVersions, AreAtMostTenAndTheFirstIsTheLists) {
  const SimModelKernel kernel = Kernel(microseconds(40), 256);
  const std::vector<SimKernelVersion> versions = VersionsOf(kernel);
  EXPECT_GT(versions.size(), 6u);
  EXPECT_LE(versions.size(), 10u);
  EXPECT_EQ(versions[0].blocks, kernel.blocks);
  EXPECT_EQ(versions[0].block.time, kernel.block.time);
  EXPECT_EQ(versions[0].block.use_permille, kernel.block.use_permille);
  EXPECT_EQ(versions[0].time, kernel.time);
}

// Shorter blocks are more, and cost more in all; narrower ones share a unit.
TEST(KernelVersions, DoTheWorkOfTheKernel) {
  const SimModelKernel kernel = Kernel(microseconds(40), 256);
  const auto work = [](std::uint32_t blocks, const BlockDemand& block) {
    return static_cast<double>(blocks) * static_cast<double>(block.time.count()) *
           block.use_permille;
  };
  const double own = work(kernel.blocks, kernel.block);
  for (const SimKernelVersion& version : VersionsOf(kernel)) {
    const double part = work(version.blocks, version.block) / own;
    EXPECT_GE(part, 1) << version.shorter << " " << version.narrower;
    EXPECT_LE(part, version.shorter == 1 ? 1.001 : 1.201) << version.shorter;
    EXPECT_EQ(version.block.threads * version.narrower, kernel.block.threads);
    EXPECT_LE(version.block.time * version.shorter, kernel.block.time * 1.2);
    EXPECT_GE(version.time, kernel.time);
  }
}

TEST(KernelVersions, HaveNoBlocksOfLessThanAMicrosecondOrAWarp) {
  const auto versions = VersionsOf(Kernel(microseconds(3), 64));
  EXPECT_THAT(versions, Each(Truly([](const SimKernelVersion& version) {
                return version.block.time >= microseconds(1) && version.block.threads >= 32;
              })));
  EXPECT_EQ(versions.size(), 4u) << "whole and half of the time, whole and half as wide";
  EXPECT_EQ(VersionsOf(Kernel(Nanoseconds(800), 0)).size(), 1u);
}

}  // namespace
}  // namespace lagoon
