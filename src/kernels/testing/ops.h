#pragma once

// For the tests of the ops: runs kernels on every instruction set of this machine, compares with a
// reference in double precision, and checks what every body promises about its blocks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "hwy/highway.h"
#include "kernels/kernel.h"
#include "kernels/testing/leave_at.h"
#include "kernels/testing/target.h"

namespace lagoon::testing {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

/// Uniform in [low, high]; equal seeds give equal numbers.
inline Floats RandomFloats(std::size_t count, float low = -1, float high = 1, unsigned seed = 1) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  Floats values(count);
  for (float& value : values) value = uniform(generator);
  return values;
}

/// A NaN that no body computes: what a block did not write still has these bits.
inline constexpr std::uint32_t kPoison = 0x7fb0dead;

inline bool IsPoison(float value) { return std::bit_cast<std::uint32_t>(value) == kPoison; }

/// A kernel bound to inputs and to an output between two guard zones.
class BoundKernel {
 public:
  static constexpr std::size_t kZone = 64;

  BoundKernel(Kernel kernel, std::vector<Floats> inputs, std::size_t output)
      : kernel_(std::move(kernel)),
        inputs_(std::move(inputs)),
        memory_(output + 2 * kZone),
        scratch_(kernel_.scratch_bytes) {
    EXPECT_EQ(kernel_.inputs.size(), inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) Bind(kernel_.inputs[i], inputs_[i].data());
    EXPECT_EQ(kernel_.outputs.size(), 1u);
    Bind(kernel_.outputs[0], memory_.data() + kZone);
    Poison();
  }

  bool RunBlock(std::uint32_t block, CheckProbe* probe = nullptr) {
    BlockContext context({}, scratch_, probe);
    return kernel_.body(kernel_.args.data(), block, context);
  }
  void RunAll() {
    for (std::uint32_t block = 0; block < kernel_.blocks; ++block) ASSERT_TRUE(RunBlock(block));
  }
  void Poison() { std::fill(memory_.begin(), memory_.end(), std::bit_cast<float>(kPoison)); }

  const Kernel& kernel() const { return kernel_; }
  std::size_t size() const { return memory_.size() - 2 * kZone; }
  const float* y() const { return memory_.data() + kZone; }
  /// Counts elements of the guard zones too.
  std::size_t CountWritten() const {
    std::size_t count = 0;
    for (const float value : memory_) count += IsPoison(value) ? 0 : 1;
    return count;
  }

 private:
  void Bind(std::uint32_t offset, const float* pointer) {
    std::memcpy(kernel_.args.data() + offset, &pointer, sizeof(pointer));
  }

  Kernel kernel_;
  std::vector<Floats> inputs_;
  Floats memory_;
  std::vector<std::byte> scratch_;
};

/// Expects that a block that leaves at a guard check has written nothing, for each of its first
/// checks.
inline void ExpectLeavesCleanly(BoundKernel& bound, std::uint32_t block) {
  LeaveAt count;
  ASSERT_TRUE(bound.RunBlock(block, &count));
  ASSERT_GE(count.checks(), 1) << "block " << block << " never looks at its guards";
  for (int check = 1; check <= std::min(count.checks(), 12); ++check) {
    bound.Poison();
    LeaveAt leave(check);
    ASSERT_FALSE(bound.RunBlock(block, &leave)) << "block " << block << ", check " << check;
    ASSERT_EQ(bound.CountWritten(), 0u) << "block " << block << " left at check " << check;
  }
}

/// Expects that on poisoned memory each block alone writes only its tile, with the same bits as in
/// a full run, and that the tiles are disjoint and cover the output. Leaves the output complete.
inline void ExpectBlocksKeepTheirTiles(BoundKernel& bound) {
  bound.Poison();
  bound.RunAll();
  const Floats whole(bound.y(), bound.y() + bound.size());
  std::vector<bool> owned(bound.size());
  std::size_t total = 0;
  for (std::uint32_t block = 0; block < bound.kernel().blocks; ++block) {
    bound.Poison();
    ASSERT_TRUE(bound.RunBlock(block));
    std::size_t written = 0;
    for (std::size_t i = 0; i < bound.size(); ++i) {
      if (IsPoison(bound.y()[i])) continue;
      ++written;
      ASSERT_FALSE(owned[i]) << "element " << i << " written again by block " << block;
      owned[i] = true;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(bound.y()[i]), std::bit_cast<std::uint32_t>(whole[i]))
          << "element " << i << " of block " << block;
    }
    ASSERT_EQ(written, bound.CountWritten()) << "block " << block << " wrote outside the output";
    ASSERT_GT(written, 0u) << "block " << block << " has no tile";
    total += written;
  }
  ASSERT_EQ(total, bound.size()) << "elements that no block writes";
  for (const std::uint32_t block : {0u, bound.kernel().blocks / 2, bound.kernel().blocks - 1}) {
    ExpectLeavesCleanly(bound, block);
  }
  bound.Poison();
  bound.RunAll();
}

/// |y - reference| <= tolerance * max(1, |reference|), element by element; infinities and NaN must
/// agree.
inline void ExpectClose(const float* y, const Doubles& reference, double tolerance) {
  for (std::size_t i = 0; i < reference.size(); ++i) {
    const double want = reference[i], got = y[i];
    if (std::isnan(want) || std::isinf(want)) {
      ASSERT_TRUE(std::isnan(want) ? std::isnan(got) : got == want)
          << "element " << i << ": " << got;
    } else {
      ASSERT_NEAR(got, want, tolerance * std::max(1.0, std::abs(want))) << "element " << i;
    }
  }
}

/// Makes the kernel for every instruction set of this machine, and checks its blocks and its
/// values.
inline void ExpectKernel(const std::function<Result<Kernel>()>& make,
                         const std::vector<Floats>& inputs, const Doubles& reference,
                         double tolerance) {
  for (const std::int64_t target : Targets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const ScopedTarget use(target);
    Result<Kernel> kernel = make();
    ASSERT_TRUE(kernel.has_value()) << kernel.error().message;
    ASSERT_GE(kernel->blocks, 1u);
    BoundKernel bound(*std::move(kernel), inputs, reference.size());
    ExpectBlocksKeepTheirTiles(bound);
    ExpectClose(bound.y(), reference, tolerance);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

inline void ExpectInvalid(const Result<Kernel>& kernel, const std::vector<std::string>& words) {
  ASSERT_FALSE(kernel.has_value());
  EXPECT_EQ(kernel.error().code, ErrorCode::kInvalidArgument);
  for (const std::string& word : words) {
    EXPECT_THAT(kernel.error().message, ::testing::HasSubstr(word));
  }
}

}  // namespace lagoon::testing
