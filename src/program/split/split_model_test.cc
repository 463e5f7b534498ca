#include "program/split/split_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/split/choose.h"
#include "program/split/split_shape.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ByteRange Arena(std::size_t offset, std::size_t bytes) { return {Region::kArena, offset, bytes}; }

PlanOp Op(std::vector<ByteRange> reads, std::vector<ByteRange> writes,
          std::chrono::microseconds time = std::chrono::microseconds(10)) {
  PlanOp op;
  op.reads = std::move(reads);
  op.writes = std::move(writes);
  op.cost.kernel = time;
  return op;
}

/// in [0, 64) -> a [64, 96) -> b [128, 144) -> c, which reads a and b -> out [192, 196).
Plan Chain() {
  Plan plan;
  plan.model = "chain";
  plan.ops = {Op({Arena(0, 64), {Region::kWeights, 0, 4096}}, {Arena(64, 32)}),
              Op({Arena(64, 32)}, {Arena(128, 16)}),
              Op({Arena(64, 32), Arena(128, 16)}, {Arena(192, 4)})};
  plan.inputs = {{{"in", DataType::kFloat32, {16}}, Arena(0, 64), {0}}};
  plan.outputs = {{{"out", DataType::kFloat32, {1}}, Arena(192, 4), {2}}};
  return plan;
}

TEST(BoundaryBytes, CountWhatIsWrittenBeforeAndReadBehind) {
  EXPECT_THAT(BoundaryBytes(Chain()), ElementsAre(64, 32, 32 + 16, 0));
}

TEST(BoundaryBytes, AnInputThatIsReadLateCrossesAllPositionsBefore) {
  Plan plan = Chain();
  plan.ops[2].reads.push_back(Arena(0, 8));
  EXPECT_THAT(BoundaryBytes(plan), ElementsAre(64, 32 + 8, 32 + 16 + 8, 0));
}

TEST(BoundaryBytes, ReusedBytesBelongToTheLastWriter) {
  Plan plan = Chain();
  plan.ops[1].writes = {Arena(0, 16)};  // in place of the input, which no op reads any more
  plan.ops[2].reads = {Arena(0, 16)};
  EXPECT_THAT(BoundaryBytes(plan), ElementsAre(64, 32, 16, 0));
}

TEST(BoundaryBytes, AValueThatManyReadCountsOnceAndByTheBytesThatAreRead) {
  Plan plan = Chain();
  plan.ops[2].reads = {Arena(64, 8), Arena(68, 8), Arena(128, 16)};
  EXPECT_THAT(BoundaryBytes(plan), ElementsAre(64, 32, 12 + 16, 0));
}

TEST(BoundaryBytes, AnOpInPlaceEndsOneValueAndBeginsAnother) {
  Plan plan = Chain();
  plan.ops[1].writes = {Arena(64, 32)};
  plan.ops[2].reads = {Arena(64, 32)};
  EXPECT_THAT(BoundaryBytes(plan), ElementsAre(64, 32, 32, 0));
}

TEST(NodesByLastOp, ANodeIsCompleteAfterItsLastKernel) {
  Plan plan = Chain();
  plan.ops.resize(5);
  const char* const names[] = {"move x", "lstm.gates", "lstm", "a.b", "lstm.merge"};
  for (std::size_t i = 0; i < 5; ++i) plan.ops[i].name = names[i];
  const std::vector<std::string> nodes = {"lstm", "view", "a.b", "a"};
  EXPECT_THAT(NodesByLastOp(plan, nodes),
              ElementsAre(IsEmpty(), IsEmpty(), IsEmpty(), ElementsAre(2), ElementsAre(0)));
}

TEST(JoinOps, KeepsTheTimesAndTheBytesAtTheEnds) {
  SplitModel model;
  model.op_us = {1, 2, 4, 8};
  model.boundary_bytes = {9, 10, 20, 30, 5};
  const std::uint32_t ends[] = {2, 3, 4};
  const SplitModel joined = JoinOps(model, ends);
  EXPECT_THAT(joined.op_us, ElementsAre(3, 4, 8));
  EXPECT_THAT(joined.boundary_bytes, ElementsAre(9, 20, 30, 5));
}

TEST(SetParts, CutsAPlanAtEqualTimes) {
  Plan plan = Chain();
  plan.ops[2].cost.kernel = std::chrono::microseconds(20);
  ASSERT_TRUE(SetParts(plan, 2));
  EXPECT_THAT(plan.part_ends, ElementsAre(2, 3));
  ASSERT_TRUE(SetParts(plan, 1));
  EXPECT_THAT(plan.part_ends, ElementsAre());
  ASSERT_TRUE(SetParts(plan, kAutoParts));
  EXPECT_TRUE(ArePartEnds(plan.part_ends, 3));
}

TEST(SetParts, RefusesWhatCannotBeCut) {
  Plan plan = Chain();
  Status status = SetParts(plan, 4);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("model 'chain': 4 parts, but the model has 3 ops"));
  EXPECT_THAT(plan.part_ends, ElementsAre());
  plan.ops.resize(1);
  status = SetParts(plan, kAutoParts);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("model 'chain': a model of 1 op cannot be cut"));
}

}  // namespace
}  // namespace lagoon
