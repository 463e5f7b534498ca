#include "kernels/conv/conv2d.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "hwy/targets.h"
#include "kernels/testing/conv2d_cases.h"

namespace lagoon {
namespace {

using testing::ConvCase;
using testing::ConvProblem;
using testing::ScopedTarget;

class Conv2dTest : public ::testing::TestWithParam<std::tuple<std::int64_t, ConvCase>> {
 protected:
  Conv2dTest() : target_(std::get<0>(GetParam())) {}
  const Conv2dSpec& spec() const { return std::get<1>(GetParam()).spec; }

 private:
  ScopedTarget target_;
};

TEST_P(Conv2dTest, MatchesReference) {
  ConvProblem problem(spec());
  std::ranges::fill(problem.y.span(), testing::kUnwritten);
  ASSERT_TRUE(problem.RunAll());
  testing::ExpectReference(problem);
}

TEST_P(Conv2dTest, BlocksWriteTheirOwnTileOnly) {
  ConvProblem problem(spec());
  testing::ExpectBlocksWriteTheirOwnTileOnly(problem);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Conv2dTest,
                         ::testing::Combine(::testing::ValuesIn(testing::Targets()),
                                            ::testing::ValuesIn(testing::ConvCases())),
                         [](const auto& test) {
                           return std::string(hwy::TargetName(std::get<0>(test.param))) + "_" +
                                  std::get<1>(test.param).name;
                         });

TEST(Conv2dPackTest, WeightsOfAProductArePackedAlikeFromBothOrders) {
  std::size_t packed_flipped = 0;
  for (const std::int64_t target : testing::Targets()) {
    const ScopedTarget scoped(target);
    for (const ConvCase& of : testing::ConvCases()) {
      const Conv2dSpec& spec = of.spec;
      if (!PacksFlipped(spec)) continue;
      ++packed_flipped;
      const std::size_t in = spec.in_channels, out = spec.out_channels;
      std::vector<float> weights(in * out), flipped(in * out);
      for (std::size_t i = 0; i < in * out; ++i) {
        weights[i] = flipped[i % in * out + i / in] = static_cast<float>(i + 1);
      }
      const std::size_t bytes = PackedConv2dWeightBytes(spec);
      std::vector<std::byte> expected(bytes, std::byte{1}), actual(bytes, std::byte{2});
      PackConv2dWeights(spec, weights.data(), expected.data());
      PackFlippedConv2dWeights(spec, flipped.data(), actual.data());
      EXPECT_EQ(expected, actual) << of.name;
    }
  }
  EXPECT_GE(packed_flipped, 3u);
}

TEST(Conv2dVersionsTest, AKernelWithoutVersionsIsTheFirstOfThem) {
  for (const ConvCase& of : testing::ConvCases()) {
    const Result<Kernel> with = MakeConv2d(of.spec);
    Conv2dSpec alone = of.spec;
    alone.all_versions = false;
    const Result<Kernel> without = MakeConv2d(alone);
    ASSERT_TRUE(with && without) << of.name;
    EXPECT_TRUE(without->versions.empty()) << of.name;
    EXPECT_EQ(with->blocks, without->blocks) << of.name;
    EXPECT_EQ(with->scratch_bytes, without->scratch_bytes) << of.name;
    EXPECT_TRUE(!kArgsImagesCompare || with->args == without->args) << of.name;
  }
}

}  // namespace
}  // namespace lagoon
