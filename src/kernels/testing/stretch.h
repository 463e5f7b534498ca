#pragma once

// For tests: the time that a kernel's blocks run between two guard checks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/time.h"
#include "device/block.h"
#include "hwy/aligned_allocator.h"
#include "kernels/conv/conv2d.h"
#include "kernels/conv/conv2d_body.h"
#include "kernels/testing/image_window.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAGOON_TEST_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LAGOON_TEST_SANITIZED 1
#endif
#endif

namespace lagoon::testing {

inline constexpr double kLimitUs = 20, kBlockLimitUs = 100;
inline constexpr int kMinRepetitions = 5, kMaxRepetitions = 60;

/// Measures this thread's time between two guard checks of a block. Keeps the shortest time of all
/// runs, because other work on the machine only adds time.
class StretchTimes final : public CheckProbe {
 public:
  void Begin() {
    index_ = 0;
    last_ = ThreadCpuTime();
  }
  bool OnCheck() override {
    Mark();
    return false;
  }
  void End() { Mark(); }
  double LongestUs() const { return *std::max_element(shortest_us_.begin(), shortest_us_.end()); }
  double TotalUs() const { return std::accumulate(shortest_us_.begin(), shortest_us_.end(), 0.0); }

 private:
  void Mark() {
    const double us = ToMicroseconds(ThreadCpuTime() - last_);
    if (index_ == shortest_us_.size()) shortest_us_.push_back(us);
    shortest_us_[index_] = std::min(shortest_us_[index_], us);
    ++index_;
    last_ = ThreadCpuTime();  // excludes the time of this function
  }

  std::vector<double> shortest_us_;
  std::size_t index_ = 0;
  Nanoseconds last_{0};
};

/// The longest time between two checks of any block. All blocks run in order each time, so that
/// operands lie in the caches as in a model.
template <typename Bound>
double LongestStretchUs(Bound& bound) {
  std::vector<StretchTimes> blocks(bound.kernel().blocks);
  double longest = 0;
  for (int repetition = 0; repetition < kMaxRepetitions; ++repetition) {
    longest = 0;
    for (std::uint32_t block = 0; block < blocks.size(); ++block) {
      blocks[block].Begin();
      bound.RunBlock(block, &blocks[block]);
      blocks[block].End();
      longest = std::max(longest, blocks[block].LongestUs());
    }
    if (repetition + 1 >= kMinRepetitions && longest < kLimitUs) break;
  }
  return longest;
}

/// How many times longer than planned a dense convolution takes now, at least 1. The CPU may be
/// slower than those that the limit is for, or may share caches and arithmetic with other programs,
/// which no thread clock shows.
inline double Slowness() {
  Conv2dSpec spec;
  spec.window = SquareWindow(28, 3, 1, 1);
  spec.in_channels = spec.out_channels = 64;
  Kernel kernel = *MakeConv2d(spec);
  const std::size_t pixels = std::size_t{28} * 28 * 64;
  const std::size_t weights = PackedConv2dWeightBytes(spec) / sizeof(float);
  const auto x = hwy::AllocateAligned<float>(pixels), y = hwy::AllocateAligned<float>(pixels);
  const auto packed = hwy::AllocateAligned<float>(weights);
  const auto scratch = hwy::AllocateAligned<std::byte>(kernel.scratch_bytes + 1);
  std::fill_n(x.get(), pixels, 0.5F);
  std::fill_n(packed.get(), weights, 0.5F);
  const auto bind = [&](std::uint32_t offset, const float* to) {
    std::memcpy(kernel.args.data() + offset, &to, sizeof(to));
  };
  bind(kernel.inputs[0], x.get());
  bind(kernel.inputs[1], packed.get());
  bind(kernel.outputs[0], y.get());
  double best = 1e9;
  for (int repetition = 0; repetition < kMinRepetitions; ++repetition) {
    const Nanoseconds begin = ThreadCpuTime();
    for (std::uint32_t block = 0; block < kernel.blocks; ++block) {
      BlockContext context({}, {scratch.get(), kernel.scratch_bytes});
      kernel.body(kernel.args.data(), block, context);
    }
    best = std::min(best, ToMicroseconds(ThreadCpuTime() - begin));
  }
  const double flops = 2.0 * static_cast<double>(pixels) * 64 * 9;
  return std::max(1.0, best * ChosenConvTarget().flops_per_us / flops);
}

/// Fails if a block, or the work between two checks, takes far longer than it should. A shared host
/// can be half as fast as planned in ways that Slowness() does not see, so up to twice `limit_us`
/// passes; a body with wrong block sizes or a missing check is further off. `lagoon bench` reports
/// times against the limit itself.
inline void ExpectShort(double us, double limit_us = kLimitUs) {
  if (us <= limit_us) return;
  const double slowness = Slowness();
  EXPECT_LE(us, 2 * limit_us * slowness)
      << "on a machine " << slowness << " times slower than planned";
}

}  // namespace lagoon::testing
