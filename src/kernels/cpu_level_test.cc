#include "kernels/cpu_level.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "hwy/highway.h"
#include "kernels/conv/conv2d_body.h"
#include "kernels/testing/target.h"

namespace lagoon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<CpuLevel> kSkylake = {CpuLevel::kPortable, CpuLevel::kAvx2, CpuLevel::kAvx512};

TEST(CpuLevel, TheWordOfALevelThatTheMachineHasIsTaken) {
  for (const CpuLevel level : kSkylake) EXPECT_EQ(*ParseCpuLevel(NameOf(level), kSkylake), level);
}

TEST(CpuLevel, WithoutAWordItIsTheHighest) {
  EXPECT_EQ(*ParseCpuLevel("", kSkylake), CpuLevel::kAvx512);
}

TEST(CpuLevel, AHigherOneThanTheMachinesIsRefusedWithTheMachinesLevels) {
  for (const char* word : {"avx512bf16", "amx"}) {
    const Result<CpuLevel> level = ParseCpuLevel(word, kSkylake);
    ASSERT_FALSE(level) << word;
    EXPECT_EQ(level.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(level.error().message,
                AllOf(HasSubstr(std::string("LAGOON_CPU is '") + word + "'"), HasSubstr("lacks"),
                      HasSubstr("are portable, avx2, avx512")));
  }
}

TEST(CpuLevel, AnUnknownWordIsRefusedWithTheMachinesLevels) {
  for (const char* word : {"AVX2", "avx", "avx512 ", "sse4", "5"}) {
    const Result<CpuLevel> level = ParseCpuLevel(word, kSkylake);
    ASSERT_FALSE(level) << word;
    EXPECT_THAT(level.error().message, AllOf(HasSubstr(std::string("'") + word + "'"),
                                             HasSubstr("is no level"), HasSubstr("avx2, avx512")));
  }
}

TEST(CpuLevel, TheMachinesAreInOrderAndHaveTheProcesss) {
  const std::span<const CpuLevel> levels = MachineCpuLevels();
  ASSERT_FALSE(levels.empty());
  EXPECT_TRUE(std::is_sorted(levels.begin(), levels.end()));
  EXPECT_THAT(levels, ::testing::Contains(ActiveCpuLevel()));
}

// Checks the level in LAGOON_CPU, which ctest's tests of the levels set.
TEST(CpuLevel, TheVariableDecidesAboutTheBodies) {
  const char* word = std::getenv("LAGOON_CPU");
  const CpuLevel level = ActiveCpuLevel();
  if (word != nullptr && *word != 0) {
    EXPECT_STREQ(NameOf(level), word);
  }
  EXPECT_EQ(ChosenConvTarget().level, std::min(level, CpuLevel::kAvx512));
  static_cast<void>(hwy::SupportedTargets());  // this forgets a limit set by DisableTargets()
  EXPECT_EQ(ChosenConvTarget().level, std::min(level, CpuLevel::kAvx512));
}

TEST(CpuLevel, ATestsTargetEndsWithItsScope) {
  const CpuLevel before = ChosenConvTarget().level;
  for (const std::int64_t target : testing::Targets()) {
    const testing::ScopedTarget scope(target);
    EXPECT_EQ(ChosenConvTarget().level, target == HWY_AVX3   ? CpuLevel::kAvx512
                                        : target == HWY_AVX2 ? CpuLevel::kAvx2
                                                             : CpuLevel::kPortable);
  }
  EXPECT_EQ(ChosenConvTarget().level, before);
}

}  // namespace
}  // namespace lagoon
