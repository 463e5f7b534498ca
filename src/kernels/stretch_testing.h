#pragma once

// For tests: the longest stretch between two guard checks of a kernel.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <vector>

#include "device/block.h"
#include "hwy/aligned_allocator.h"
#include "kernels/conv2d.h"
#include "kernels/conv2d_body.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAGOON_SLOW_BUILD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LAGOON_SLOW_BUILD 1
#endif
#endif

namespace lagoon::testing {

inline constexpr double kLimitUs = 20;
inline constexpr int kMinRepetitions = 5, kMaxRepetitions = 60;

/// Time of this thread alone: others on the machine do not count.
inline double ThreadUs() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

/// The stretches of one block, in their order: each with its best of all runs, since in a long run
/// something always disturbs some of them.
class Stretches final : public CheckProbe {
 public:
  void Start() {
    next_ = 0;
    last_ = ThreadUs();
  }
  bool OnCheck() override {
    Mark();
    last_ = ThreadUs();
    return false;
  }
  void Finish() { Mark(); }
  double longest() const { return *std::max_element(best_.begin(), best_.end()); }

 private:
  void Mark() {
    const double us = ThreadUs() - last_;
    if (next_ == best_.size()) best_.push_back(us);
    best_[next_] = std::min(best_[next_], us);
    ++next_;
  }

  std::vector<double> best_;
  std::size_t next_ = 0;
  double last_ = 0;
};

/// The longest stretch of any block. All blocks run in order each time, so that operands lie where
/// a model leaves them.
template <typename Bound>
double LongestStretchUs(Bound& bound) {
  std::vector<Stretches> blocks(bound.kernel().blocks);
  double longest = 0;
  for (int repetition = 0; repetition < kMaxRepetitions; ++repetition) {
    longest = 0;
    for (std::uint32_t block = 0; block < blocks.size(); ++block) {
      blocks[block].Start();
      bound.RunBlock(block, &blocks[block]);
      blocks[block].Finish();
      longest = std::max(longest, blocks[block].longest());
    }
    if (repetition + 1 >= kMinRepetitions && longest < kLimitUs) break;
  }
  return longest;
}

/// How many times as long as planned a dense convolution takes now, at least 1: the CPU is slower
/// than those that the limit is for, or shares its caches and arithmetic with neighbours, which no
/// clock of a thread shows.
inline double Slowness() {
  Conv2dSpec spec;
  spec.height = spec.width = spec.out_height = spec.out_width = 28;
  spec.in_channels = spec.out_channels = 64;
  spec.kernel_h = spec.kernel_w = 3;
  spec.pad_top = spec.pad_left = 1;
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
    const double begin = ThreadUs();
    for (std::uint32_t block = 0; block < kernel.blocks; ++block) {
      BlockContext context({}, {scratch.get(), kernel.scratch_bytes});
      kernel.body(kernel.args.data(), block, context);
    }
    best = std::min(best, ThreadUs() - begin);
  }
  const double flops = 2.0 * static_cast<double>(pixels) * 64 * 9;
  return std::max(1.0, best * ChosenConvTarget().flops_per_us / flops);
}

/// Fails when blocks run for longer than kLimitUs without a check, on a machine as fast as planned.
inline void ExpectShort(double longest_us) {
  if (longest_us <= kLimitUs) return;
  const double slowness = Slowness();
  EXPECT_LE(longest_us, kLimitUs * slowness)
      << "on a machine " << slowness << " times slower than planned";
}

}  // namespace lagoon::testing
