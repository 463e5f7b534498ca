// conv2d and the block protocol: leaving, resuming, and how long a block may keep its unit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "hwy/targets.h"
#include "kernels/conv2d.h"
#include "kernels/conv2d_testing.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define LAGOON_TEST_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LAGOON_TEST_SANITIZED 1
#endif

namespace lagoon {
namespace {

using testing::ConvProblem;
using ::testing::HasSubstr;
using testing::ScopedTarget;

constexpr float kPoison = -12345.0f;

struct Case {
  const char* name;
  std::uint32_t in, size, out, kernel, stride, pad;
};

// One of each way to read the input and to cut the depth, and the extremes of the five CNNs.
constexpr Case kCases[] = {
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

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Conv2dSpec SpecOf(const Case& c) {
  Conv2dSpec s;
  s.height = s.width = c.size;
  s.in_channels = c.in;
  s.out_channels = c.out;
  s.kernel_h = s.kernel_w = c.kernel;
  s.stride_h = s.stride_w = c.stride;
  s.pad_top = s.pad_left = c.pad;
  s.out_height = s.out_width = (c.size + 2 * c.pad - c.kernel) / c.stride + 1;
  s.bias = true;
  s.epilogue = {Activation::kRelu, 0, 0, /*residual=*/true};
  return s;
}

/// Leaves at one check; counts them all.
class LeaveAt : public CheckProbe {
 public:
  explicit LeaveAt(int check) : check_(check) {}
  bool OnCheck() override { return ++count_ == check_; }
  int count() const { return count_; }

 private:
  const int check_;
  int count_ = 0;
};

double ThreadMicroseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

/// Takes the time of each stretch between two checks: the shortest of all runs, as whatever else
/// the machine does only adds to it.
class Stretches : public CheckProbe {
 public:
  void Begin() {
    index_ = 0;
    last_ = ThreadMicroseconds();
  }
  bool OnCheck() override {
    Mark();
    return false;
  }
  void End() { Mark(); }
  double Longest() const { return *std::ranges::max_element(shortest_); }
  double Total() const { return std::accumulate(shortest_.begin(), shortest_.end(), 0.0); }

 private:
  void Mark() {
    const double now = ThreadMicroseconds();
    if (index_ == shortest_.size()) shortest_.push_back(1e9);
    shortest_[index_] = std::min(shortest_[index_], now - last_);
    ++index_;
    last_ = ThreadMicroseconds();  // without the time of this function
  }
  std::vector<double> shortest_;
  std::size_t index_ = 0;
  double last_ = 0;
};

class Conv2dProtocolTest : public ::testing::TestWithParam<std::tuple<std::int64_t, Case>> {
 protected:
  Conv2dProtocolTest() : target_(std::get<0>(GetParam())) {}
  Conv2dSpec spec() const { return SpecOf(std::get<1>(GetParam())); }

 private:
  ScopedTarget target_;
};

// First, middle and last block: they differ in what of the image and of the channels they see.
std::vector<std::uint32_t> SomeBlocks(const Kernel& kernel) {
  std::vector<std::uint32_t> blocks = {0, kernel.blocks / 2, kernel.blocks - 1};
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

TEST_P(Conv2dProtocolTest, LeavesUnseenAtEveryCheckAndComputesTheSameAgain) {
  ConvProblem problem(spec());
  const std::span<float> y = problem.y.span();
  for (const std::uint32_t block : SomeBlocks(problem.kernel)) {
    std::ranges::fill(y, kPoison);
    LeaveAt never(0);
    ASSERT_TRUE(problem.RunBlock(block, &never));
    ASSERT_GE(never.count(), 1);
    const std::vector<float> undisturbed(y.begin(), y.end());
    for (int check = 1; check <= never.count(); ++check) {
      std::ranges::fill(y, kPoison);
      LeaveAt probe(check);
      ASSERT_FALSE(problem.RunBlock(block, &probe)) << "check " << check;
      ASSERT_EQ(std::ranges::count(y, kPoison), std::ssize(y)) << "check " << check;
    }
    ASSERT_TRUE(problem.RunBlock(block));
    EXPECT_TRUE(std::ranges::equal(y, undisturbed));
  }
}

TEST_P(Conv2dProtocolTest, ChecksOftenEnoughAndBlocksAreShort) {
#ifdef LAGOON_TEST_SANITIZED
  GTEST_SKIP() << "times mean nothing under a sanitizer";
#endif
  constexpr int kRuns = 40, kMostRuns = 400;
  ConvProblem problem(spec());
  for (const std::uint32_t block : SomeBlocks(problem.kernel)) {
    Stretches stretches;
    for (int run = 0; run < kMostRuns; ++run) {
      if (run >= kRuns && stretches.Longest() <= 20 && stretches.Total() <= 100) break;
      // Whoever disturbs the machine now is gone later.
      if (run >= kRuns && run % kRuns == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      stretches.Begin();
      ASSERT_TRUE(problem.RunBlock(block, &stretches));
      stretches.End();
    }
    EXPECT_LE(stretches.Longest(), 20.0) << "block " << block;
    EXPECT_LE(stretches.Total(), 100.0) << "block " << block;
  }
}

// The instruction sets that blocks are sized for; the others only have to be right.
std::vector<std::int64_t> SizedTargets() {
  std::vector<std::int64_t> targets;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (target == HWY_AVX3 || target == HWY_AVX2 || target == HWY_NEON) targets.push_back(target);
  }
  return targets;
}

INSTANTIATE_TEST_SUITE_P(Layers, Conv2dProtocolTest,
                         ::testing::Combine(::testing::ValuesIn(SizedTargets()),
                                            ::testing::ValuesIn(kCases)),
                         [](const auto& test) {
                           return std::string(hwy::TargetName(std::get<0>(test.param))) + "_" +
                                  std::get<1>(test.param).name;
                         });

TEST(Conv2dErrors, NamesTheFieldThatIsZero) {
  const auto expect = [](auto change, const char* field) {
    Conv2dSpec spec = SpecOf(kCases[2]);
    change(spec);
    const Result<Kernel> kernel = MakeConv2d(spec);
    ASSERT_FALSE(kernel);
    EXPECT_EQ(kernel.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(kernel.error().message, HasSubstr(field));
  };
  expect([](Conv2dSpec& s) { s.batch = 0; }, "batch");
  expect([](Conv2dSpec& s) { s.height = 0; }, "height");
  expect([](Conv2dSpec& s) { s.width = 0; }, "width");
  expect([](Conv2dSpec& s) { s.in_channels = 0; }, "in_channels");
  expect([](Conv2dSpec& s) { s.out_height = 0; }, "out_height");
  expect([](Conv2dSpec& s) { s.out_width = 0; }, "out_width");
  expect([](Conv2dSpec& s) { s.out_channels = 0; }, "out_channels");
  expect([](Conv2dSpec& s) { s.kernel_h = 0; }, "kernel_h");
  expect([](Conv2dSpec& s) { s.kernel_w = 0; }, "kernel_w");
  expect([](Conv2dSpec& s) { s.stride_h = 0; }, "stride_h");
  expect([](Conv2dSpec& s) { s.stride_w = 0; }, "stride_w");
  expect([](Conv2dSpec& s) { s.dilation_h = 0; }, "dilation_h");
  expect([](Conv2dSpec& s) { s.dilation_w = 0; }, "dilation_w");
}

TEST(Conv2dErrors, RefusesSizesThatOverflow) {
  const auto expect = [](auto change, const char* field) {
    Conv2dSpec spec = SpecOf(kCases[2]);
    change(spec);
    const Result<Kernel> kernel = MakeConv2d(spec);
    ASSERT_FALSE(kernel) << field;
    EXPECT_EQ(kernel.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(kernel.error().message, HasSubstr(field));
  };
  constexpr std::uint32_t kLarge = 1u << 20, kHuge = 1u << 31;
  expect([](Conv2dSpec& s) { s.height = s.width = kLarge; }, "x");
  expect([](Conv2dSpec& s) { s.out_height = s.out_width = kLarge; }, "y");
  expect([](Conv2dSpec& s) { s.kernel_h = s.kernel_w = kLarge; }, "weights");
  expect([](Conv2dSpec& s) { s.stride_h = kHuge; }, "height");
  expect([](Conv2dSpec& s) { s.dilation_w = kHuge; }, "width");
  expect([](Conv2dSpec& s) { s.pad_top = kHuge; }, "height");
  expect([](Conv2dSpec& s) { s.dilation_w = 1u << 28; }, "dilation_w");
  expect([](Conv2dSpec& s) { s.epilogue = {Activation::kClip, 1, 0, false}; }, "epilogue");
}

}  // namespace
}  // namespace lagoon
