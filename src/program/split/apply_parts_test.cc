#include "program/split/apply_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "plan/parts.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A plan of `ops` ops of equal time.
Plan PlanOf(std::size_t ops) {
  Plan plan;
  plan.model = "even";
  plan.ops.resize(ops);
  for (PlanOp& op : plan.ops) op.cost.kernel = std::chrono::microseconds(100);
  return plan;
}

TEST(ApplyParts, KeepsThePartsOfTheProfileIfTheirNumberIsRight) {
  Plan plan = PlanOf(8);
  plan.part_ends = {1, 3, 8};
  for (const std::optional<std::uint32_t> parts : {std::optional<std::uint32_t>(), {3U}, {0U}}) {
    ASSERT_TRUE(ApplyParts(parts, false, plan));
    EXPECT_THAT(plan.part_ends, ElementsAre(1, 3, 8));
  }
  ASSERT_TRUE(ApplyParts(2, false, plan));
  EXPECT_THAT(plan.part_ends, ElementsAre(4, 8));
  ASSERT_TRUE(ApplyParts(1, false, plan));
  EXPECT_THAT(plan.part_ends, IsEmpty());
}

TEST(ApplyParts, SearchesWhatTheProfileLacks) {
  Plan plan = PlanOf(8);
  ASSERT_TRUE(ApplyParts(std::nullopt, false, plan));
  EXPECT_THAT(plan.part_ends, IsEmpty());
  ASSERT_TRUE(ApplyParts(kAutoParts, false, plan));
  EXPECT_THAT(plan.part_ends, ElementsAre(2, 4, 6, 8));
}

TEST(ApplyParts, SearchesALargePlan) {
  Plan plan = PlanOf(2534);  // as many as GPT-2 has in the paper
  ASSERT_TRUE(ApplyParts(kAutoParts, false, plan));
  EXPECT_EQ(plan.part_ends.size(), 4u);
}

TEST(ApplyParts, RefusesWithTheParameterAndTheNumbers) {
  Plan plan = PlanOf(3);
  Status status = ApplyParts(4, false, plan);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("parameter 'lagoon.parts' is '4': model 'even': 4 "
                                                "parts, but the model has 3 ops"));
  plan = PlanOf(1);
  status = ApplyParts(kAutoParts, false, plan);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("'auto': model 'even': a model of 1 op cannot be"));
  EXPECT_THAT(plan.part_ends, IsEmpty());
}

TEST(CutIfLong, CutsWhatIsLongAndHasNoParts) {
  using std::chrono::milliseconds;
  Plan plan = PlanOf(8);
  plan.standalone = milliseconds(10);
  CutIfLong(Nanoseconds(0), false, plan);
  CutIfLong(milliseconds(10), false, plan);
  CutIfLong(milliseconds(5), true, plan);
  EXPECT_THAT(plan.part_ends, IsEmpty());
  CutIfLong(milliseconds(5), false, plan);
  EXPECT_THAT(plan.part_ends, ElementsAre(2, 4, 6, 8));
  plan.part_ends = {1, 8};
  CutIfLong(milliseconds(5), false, plan);
  EXPECT_THAT(plan.part_ends, ElementsAre(1, 8)) << "those of its profile";
  Plan one = PlanOf(1);
  one.standalone = milliseconds(10);
  CutIfLong(milliseconds(5), false, one);
  EXPECT_THAT(one.part_ends, IsEmpty());
}

TEST(ApplyParts, RefusesAModelOfSeveralPlans) {
  Plan plan = PlanOf(8);
  const Status status = ApplyParts(kAutoParts, true, plan);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kUnimplemented);
  EXPECT_THAT(status.error().message, HasSubstr("'auto', but data decide shapes of model 'even'"));
  EXPECT_TRUE(ApplyParts(1, true, plan));
  EXPECT_TRUE(ApplyParts(std::nullopt, true, plan));
}

}  // namespace
}  // namespace lagoon
