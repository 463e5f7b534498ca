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

}  // namespace
}  // namespace lagoon
