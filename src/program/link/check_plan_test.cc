#include "program/link/check_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lagoon {
namespace {

using ::testing::HasSubstr;

ByteRange Arena(std::size_t offset, std::size_t bytes) { return {Region::kArena, offset, bytes}; }

PlanOp Op(const char* name, std::vector<std::uint32_t> deps, std::vector<ByteRange> reads,
          std::vector<ByteRange> writes) {
  PlanOp op;
  op.name = name;
  op.blocks = 1;
  op.deps = std::move(deps);
  op.reads = std::move(reads);
  op.writes = std::move(writes);
  return op;
}

/// in -> a -> {b, c} -> d -> out, with a at offset 64, b at 128, c at 192, d at 256.
Plan Diamond() {
  Plan plan;
  plan.model = "diamond";
  plan.arena_bytes = 320;
  plan.weight_bytes = 64;
  plan.ops = {Op("a", {}, {Arena(0, 64), {Region::kWeights, 0, 64}}, {Arena(64, 64)}),
              Op("b", {0}, {Arena(64, 64)}, {Arena(128, 64)}),
              Op("c", {0}, {Arena(64, 64)}, {Arena(192, 64)}),
              Op("d", {1, 2}, {Arena(128, 64), Arena(192, 64)}, {Arena(256, 64)})};
  plan.inputs = {{{"in", DataType::kFloat32, {16}}, Arena(0, 64), {0}}};
  plan.outputs = {{{"out", DataType::kFloat32, {16}}, Arena(256, 64), {3}}};
  return plan;
}

std::string Complaint(const Plan& plan) {
  std::byte bytes[64];
  const std::shared_ptr<const WeightChunk> weights[] = {std::make_shared<const WeightChunk>(
      WeightChunk{0, Buffer(bytes, sizeof(bytes), [](void*, std::size_t) {})})};
  const Status status = CheckPlan(plan, weights);
  return status ? "" : status.error().message;
}

TEST(CheckPlan, AcceptsADiamond) { EXPECT_EQ(Complaint(Diamond()), ""); }

TEST(CheckPlan, FindsUnorderedWrites) {
  Plan plan = Diamond();
  plan.ops[2].writes = {Arena(160, 64)};
  plan.ops[3].reads = {Arena(128, 32), Arena(160, 64)};
  EXPECT_THAT(Complaint(plan), HasSubstr("op 2 'c' is not ordered after op 1 'b'"));
}

TEST(CheckPlan, FindsAWriteOverWhatAnUnorderedOpReads) {
  Plan plan = Diamond();
  plan.ops[2].reads = {Arena(0, 64)};
  plan.ops[2].writes = {Arena(64, 64)};
  plan.ops[3].reads = {Arena(128, 64), Arena(64, 64)};
  EXPECT_THAT(Complaint(plan), HasSubstr("op 2 'c' is not ordered after op 1 'b'"));
}

TEST(CheckPlan, FindsAMissingDependency) {
  Plan plan = Diamond();
  plan.ops[3].deps = {1};
  EXPECT_THAT(Complaint(plan), HasSubstr("op 3 'd' is not ordered after op 2 'c'"));
}

TEST(CheckPlan, FindsAnOpThatOverwritesItsInput) {
  Plan plan = Diamond();
  plan.ops[1].writes = {Arena(96, 64)};
  EXPECT_THAT(Complaint(plan),
              HasSubstr("op 1 'b' writes arena [96,160) and reads arena [64,128)"));
}

TEST(CheckPlan, FindsAWriteToAnInput) {
  Plan plan = Diamond();
  plan.ops[3].writes = {Arena(32, 64)};
  EXPECT_THAT(Complaint(plan), HasSubstr("of input 'in'"));
}

TEST(CheckPlan, FindsAReadOfWhatWasOverwritten) {
  Plan plan = Diamond();
  plan.ops[2].deps = {1};
  plan.ops[2].writes = {Arena(160, 64)};
  plan.ops[3] = Op("d", {2}, {Arena(128, 64)}, {Arena(256, 64)});
  EXPECT_THAT(Complaint(plan), HasSubstr("of which op 2 'c' has overwritten arena [160,224)"));
}

TEST(CheckPlan, FindsAReadOfNothing) {
  Plan plan = Diamond();
  plan.ops[0].reads.push_back(Arena(256, 64));
  EXPECT_THAT(Complaint(plan), HasSubstr("op 0 'a' reads arena [256,320), never written"));
}

TEST(CheckPlan, FindsRangesOutsideTheirRegion) {
  Plan plan = Diamond();
  plan.ops[0].reads[1].bytes = 65;
  EXPECT_THAT(Complaint(plan), HasSubstr("weights [0,65) of a region [0,64)"));
}

TEST(CheckPlan, FindsWritesToWeights) {
  Plan plan = Diamond();
  plan.ops[0].writes.push_back({Region::kWeights, 0, 4});
  EXPECT_THAT(Complaint(plan), HasSubstr("op 0 'a' writes weights [0,4)"));
}

TEST(CheckPlan, FindsPointersOutsideTheAccessSets) {
  Plan plan = Diamond();
  plan.ops[1].args.resize(8);
  plan.ops[1].relocations = {{0, Region::kArena, 192}};
  EXPECT_THAT(Complaint(plan), HasSubstr("op 1 'b' has a pointer outside its access sets"));
  plan.ops[1].relocations = {{1, Region::kArena, 64}};
  EXPECT_THAT(Complaint(plan), HasSubstr("has a pointer at byte 1 of its 8 bytes of arguments"));
}

TEST(CheckPlan, FindsForwardDependencies) {
  Plan plan = Diamond();
  plan.ops[1].deps = {1};
  EXPECT_THAT(Complaint(plan), HasSubstr("op 1 'b' depends on op 1"));
}

TEST(CheckPlan, FindsAnOutputThatItsOpsDidNotWriteLast) {
  Plan plan = Diamond();
  plan.outputs[0].ops = {2};
  EXPECT_THAT(Complaint(plan), HasSubstr("output 'out'"));
}

}  // namespace
}  // namespace lagoon
