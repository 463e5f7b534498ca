// conv2d and the block protocol: leaving, resuming, and how long a block may keep its unit.

#include "kernels/testing/conv2d_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "hwy/targets.h"
#include "kernels/conv/conv2d.h"

namespace lagoon {
namespace {

using testing::ConvProblem;
using ::testing::HasSubstr;
using testing::ProtocolCase;
using testing::ScopedTarget;

class Conv2dProtocolTest : public ::testing::TestWithParam<std::tuple<std::int64_t, ProtocolCase>> {
 protected:
  Conv2dProtocolTest() : target_(std::get<0>(GetParam())) {}
  Conv2dSpec spec() const { return testing::SpecOf(std::get<1>(GetParam())); }

 private:
  ScopedTarget target_;
};

TEST_P(Conv2dProtocolTest, LeavesUnseenAtEveryCheckAndComputesTheSameAgain) {
  ConvProblem problem(spec());
  testing::ExpectLeavesUnseenAtEveryCheckAndComputesTheSameAgain(problem);
}

TEST_P(Conv2dProtocolTest, ChecksOftenEnoughAndBlocksAreShort) {
#ifdef LAGOON_TEST_SANITIZED
  GTEST_SKIP() << "times mean nothing under a sanitizer";
#endif
  ConvProblem problem(spec());
  testing::ExpectChecksOftenEnoughAndShortBlocks(problem);
}

// The instruction sets that blocks are sized for; the others only have to give correct results.
std::vector<std::int64_t> SizedTargets() {
  std::vector<std::int64_t> targets;
  for (const std::int64_t target : testing::Targets()) {
    if (target == HWY_AVX3 || target == HWY_AVX2 || target == HWY_NEON) targets.push_back(target);
  }
  return targets;
}

INSTANTIATE_TEST_SUITE_P(Layers, Conv2dProtocolTest,
                         ::testing::Combine(::testing::ValuesIn(SizedTargets()),
                                            ::testing::ValuesIn(testing::kProtocolCases)),
                         [](const auto& test) {
                           return std::string(hwy::TargetName(std::get<0>(test.param))) + "_" +
                                  std::get<1>(test.param).name;
                         });

// At level portable there is none.
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Conv2dProtocolTest);

TEST(Conv2dErrors, NamesTheFieldThatIsZero) {
  const auto expect = [](auto change, const char* field) {
    Conv2dSpec spec = testing::SpecOf(testing::kProtocolCases[2]);
    change(spec);
    const Result<Kernel> kernel = MakeConv2d(spec);
    ASSERT_FALSE(kernel);
    EXPECT_EQ(kernel.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(kernel.error().message, HasSubstr(field));
  };
  expect([](Conv2dSpec& s) { s.window.batch = 0; }, "batch");
  expect([](Conv2dSpec& s) { s.window.height = 0; }, "height");
  expect([](Conv2dSpec& s) { s.window.width = 0; }, "width");
  expect([](Conv2dSpec& s) { s.in_channels = 0; }, "in_channels");
  expect([](Conv2dSpec& s) { s.window.out_height = 0; }, "out_height");
  expect([](Conv2dSpec& s) { s.window.out_width = 0; }, "out_width");
  expect([](Conv2dSpec& s) { s.out_channels = 0; }, "out_channels");
  expect([](Conv2dSpec& s) { s.window.kernel_h = 0; }, "kernel_h");
  expect([](Conv2dSpec& s) { s.window.kernel_w = 0; }, "kernel_w");
  expect([](Conv2dSpec& s) { s.window.stride_h = 0; }, "stride_h");
  expect([](Conv2dSpec& s) { s.window.stride_w = 0; }, "stride_w");
  expect([](Conv2dSpec& s) { s.window.dilation_h = 0; }, "dilation_h");
  expect([](Conv2dSpec& s) { s.window.dilation_w = 0; }, "dilation_w");
}

TEST(Conv2dErrors, RefusesSizesThatOverflow) {
  const auto expect = [](auto change, const char* field) {
    Conv2dSpec spec = testing::SpecOf(testing::kProtocolCases[2]);
    change(spec);
    const Result<Kernel> kernel = MakeConv2d(spec);
    ASSERT_FALSE(kernel) << field;
    EXPECT_EQ(kernel.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(kernel.error().message, HasSubstr(field));
  };
  constexpr std::uint32_t kLarge = 1u << 20, kHuge = 1u << 31;
  expect([](Conv2dSpec& s) { s.window.height = s.window.width = kLarge; }, "x");
  expect([](Conv2dSpec& s) { s.window.out_height = s.window.out_width = kLarge; }, "y");
  expect([](Conv2dSpec& s) { s.window.kernel_h = s.window.kernel_w = kLarge; }, "weights");
  expect([](Conv2dSpec& s) { s.window.stride_h = kHuge; }, "height");
  expect([](Conv2dSpec& s) { s.window.dilation_w = kHuge; }, "width");
  expect([](Conv2dSpec& s) { s.window.pad_top = kHuge; }, "height");
  // Few channels are copied with the padding between taps.
  expect([](Conv2dSpec& s) { s.in_channels = 3, s.window.dilation_w = 1u << 28; }, "dilation_w");
  expect([](Conv2dSpec& s) { s.epilogue = {Activation::kClip, 1, 0, false}; }, "epilogue");
}

}  // namespace
}  // namespace lagoon
