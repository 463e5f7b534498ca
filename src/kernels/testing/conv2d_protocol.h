#pragma once

// For the tests of conv2d's bodies: leaving, resuming, and how long a block may keep its unit.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "kernels/testing/conv2d.h"
#include "kernels/testing/conv2d_cases.h"
#include "kernels/testing/leave_at.h"
#include "kernels/testing/stretch.h"

namespace lagoon::testing {

struct ProtocolCase {
  const char* name;
  std::uint32_t in, size, out, kernel, stride, pad;
};

// One case for each way to read the input and to cut the depth, and the extremes of the five CNNs.
inline constexpr ProtocolCase kProtocolCases[] = {
    {"stem", 3, 224, 64, 7, 2, 3},
    {"stem_3x3", 3, 224, 32, 3, 2, 1},
    {"edge", 64, 56, 64, 3, 1, 1},
    {"edge_deep", 512, 7, 512, 3, 1, 1},
    {"edge_stride", 256, 28, 256, 3, 2, 1},
    {"edge_wide", 64, 112, 128, 3, 1, 1},
    {"pointwise", 64, 56, 256, 1, 1, 0},
    {"pointwise_deep", 2048, 7, 512, 1, 1, 0},
    {"pointwise_flat", 16, 112, 96, 1, 1, 0},
    {"pointwise_narrow", 32, 112, 16, 1, 1, 0},
    {"pointwise_part", 144, 56, 24, 1, 1, 0},
    {"pointwise_stride", 512, 28, 1024, 1, 2, 0},
    {"patch_5x5", 48, 27, 128, 5, 1, 2},
    {"classifier", 512, 13, 1000, 1, 1, 0},
    {"gemv", 2048, 1, 1000, 1, 1, 0},
    {"gemv_deep", 25088, 1, 256, 1, 1, 0},
};

inline void PrintTo(const ProtocolCase& c, std::ostream* out) { *out << c.name; }

inline Conv2dSpec SpecOf(const ProtocolCase& c) {
  Conv2dSpec s = SquareConv(c.in, c.size, c.out, c.kernel, c.stride, c.pad);
  s.epilogue.residual = true;
  return s;
}

// First, middle and last block: they cover different parts of the image and of the channels.
inline std::vector<std::uint32_t> SomeBlocks(const Kernel& kernel) {
  std::vector<std::uint32_t> blocks = {0, kernel.blocks / 2, kernel.blocks - 1};
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

inline void ExpectLeavesUnseenAtEveryCheckAndComputesTheSameAgain(ConvProblem& problem) {
  const std::span<float> y = problem.y.span();
  for (const std::uint32_t block : SomeBlocks(problem.kernel)) {
    std::ranges::fill(y, kUnwritten);
    LeaveAt never;
    ASSERT_TRUE(problem.RunBlock(block, &never));
    ASSERT_GE(never.checks(), 1);
    const std::vector<float> undisturbed(y.begin(), y.end());
    for (int check = 1; check <= never.checks(); ++check) {
      std::ranges::fill(y, kUnwritten);
      LeaveAt probe(check);
      ASSERT_FALSE(problem.RunBlock(block, &probe)) << "check " << check;
      ASSERT_EQ(std::ranges::count(y, kUnwritten), std::ssize(y)) << "check " << check;
    }
    ASSERT_TRUE(problem.RunBlock(block));
    EXPECT_TRUE(std::ranges::equal(y, undisturbed));
  }
}

/// Not for builds with a sanitizer, where times mean nothing.
inline void ExpectChecksOftenEnoughAndShortBlocks(ConvProblem& problem) {
  constexpr int kRuns = 40, kMostRuns = 400;
  for (const std::uint32_t block : SomeBlocks(problem.kernel)) {
    StretchTimes stretches;
    for (int run = 0; run < kMostRuns; ++run) {
      if (run >= kRuns && stretches.LongestUs() <= kLimitUs && stretches.TotalUs() <= kBlockLimitUs)
        break;
      // Another process may disturb this run: wait, and try again.
      if (run >= kRuns && run % kRuns == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      stretches.Begin();
      ASSERT_TRUE(problem.RunBlock(block, &stretches));
      stretches.End();
    }
    SCOPED_TRACE("block " + std::to_string(block));
    ExpectShort(stretches.LongestUs());
    ExpectShort(stretches.TotalUs(), kBlockLimitUs);
  }
}

}  // namespace lagoon::testing
