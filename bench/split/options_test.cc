#include "bench/split/options.h"

#include <gmock/gmock.h>

namespace lagoon::bench {
namespace {

using testing::HasSubstr;

TEST(SplitRuns, LagoonAlsoRunsWithTheShortModelsAsRealTime) {
  const std::vector<SplitRun> runs = *SplitRuns({"prema", "lagoon"});
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_EQ(runs[1].name, "lagoon");
  EXPECT_EQ(runs[2].name, "lagoon.classes");
  EXPECT_EQ(runs[2].spec, "lagoon");
  EXPECT_EQ(ClassOf(runs[1], {"a", true}), JobClass::kBestEffort);
  EXPECT_EQ(ClassOf(runs[2], {"a", true}), JobClass::kRealTime);
  EXPECT_EQ(ClassOf(runs[2], {"b", false}), JobClass::kBestEffort);
}

TEST(SplitRuns, OnlySchedulersThatUseDeadlinesGetThem) {
  const std::vector<SplitRun> runs =
      *SplitRuns({"edf", "clockwork", "clockwork:admit_by_deadline=0", "split", "srpt"});
  const bool expected[] = {true, true, false, false, false};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    EXPECT_EQ(runs[i].deadlines, expected[i]) << runs[i].name;
  }
}

TEST(SplitRuns, AnUnknownSchedulerOrParameterIsNamed) {
  EXPECT_THAT(SplitRuns({"fast"}).error().message, HasSubstr("'fast'"));
  EXPECT_THAT(SplitRuns({"split:elastc=1"}).error().message, HasSubstr("'elastc'"));
}

TEST(SplitRuns, ASchedulersNameIsWithoutParametersAndVariants) {
  EXPECT_EQ(SchedulerName("clockwork:admit_by_deadline=0"), "clockwork");
  EXPECT_EQ(SchedulerName("split.plan"), "split");
}

}  // namespace
}  // namespace lagoon::bench
