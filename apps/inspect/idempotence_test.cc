#include "apps/inspect/idempotence.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace lagoon {
namespace {

constexpr std::uint64_t kA = 0, kB = 1, kC = 2, kD = 3, kE = 4, kF = 5;

AccessSet Op(std::string name, std::vector<std::uint64_t> reads,
             std::vector<std::uint64_t> writes) {
  AccessSet set{std::move(name), {}, {}};
  for (const std::uint64_t byte : reads) set.reads.push_back({byte, 1});
  for (const std::uint64_t byte : writes) set.writes.push_back({byte, 1});
  return set;
}

TEST(Idempotence, ReefFigure9NeedsThreeKernels) {
  const std::vector<AccessSet> kernels = {
      Op("K0", {kA, kB}, {kC}),
      Op("K1", {kC, kD}, {kE}),
      Op("K2", {kE}, {kF}),
      Op("K3", {kC, kE}, {kE}),
  };
  EXPECT_EQ(FindIdempotentGroups(kernels), (std::vector<std::uint32_t>{0, 1, 2, 1}));
}

TEST(Idempotence, AMemsetBeforeAnAccumulationIsItsGroup) {
  const std::vector<AccessSet> operations = {Op("memset", {}, {kC}),
                                             Op("accumulate", {kA, kC}, {kC})};
  EXPECT_EQ(FindIdempotentGroups(operations), (std::vector<std::uint32_t>{0, 0}));
}

TEST(Idempotence, AnOverwrittenInputOfTheModelCannotBeRestored) {
  const std::vector<AccessSet> operations = {Op("relu_in_place", {kA}, {kA})};
  EXPECT_EQ(FindIdempotentGroups(operations), (std::vector<std::uint32_t>{kNoGroup}));
}

TEST(Idempotence, OverlapByOneByteCounts) {
  const std::vector<AccessSet> apart = {{"k", {{0, 16}}, {{16, 16}}}};
  const std::vector<AccessSet> touching = {{"k", {{0, 16}}, {{15, 16}}}};
  EXPECT_EQ(FindIdempotentGroups(apart).front(), 0u);
  EXPECT_EQ(FindIdempotentGroups(touching).front(), kNoGroup);
}

TEST(Idempotence, WeightsAndArenaAreDifferentMemory) {
  Plan plan;
  PlanOp op;
  op.reads = {{Region::kWeights, 0, 64}};
  op.writes = {{Region::kArena, 0, 64}};
  plan.ops.push_back(op);
  EXPECT_EQ(FindIdempotentGroups(AccessSetsOf(plan)).front(), 0u);
}

TEST(Idempotence, SummaryCountsKernelsAndTheLargestGroup) {
  const std::vector<std::uint32_t> groups = {0, 1, 2, 1, kNoGroup};
  const IdempotenceSummary summary = Summarize(groups);
  EXPECT_EQ(summary.operations, 5u);
  EXPECT_EQ(summary.idempotent, 3u);
  EXPECT_EQ(summary.not_restorable, 1u);
  EXPECT_EQ(summary.largest_group, 3u);
}

// Runs operations on symbolic bytes: every byte that an operation writes depends on all bytes that
// it reads.
class Machine {
 public:
  void Run(const AccessSet& operation, std::size_t writes_done) {
    std::size_t value = std::hash<std::string>()(operation.name);
    for (const AddressRange& range : operation.reads) {
      value = value * 1099511628211u + memory_[range.begin];
    }
    for (std::size_t i = 0; i < writes_done; ++i) {
      memory_[operation.writes[i].begin] = value + i;
    }
  }
  const std::map<std::uint64_t, std::size_t>& memory() const { return memory_; }

 private:
  std::map<std::uint64_t, std::size_t> memory_;
};

// The definition itself, on random programs: interrupted anywhere and restarted from the group's
// first operation, the memory ends as in a run without interruption.
TEST(Idempotence, RestartingAGroupGivesTheSameResult) {
  std::mt19937 random(7);
  const auto bytes = [&](std::size_t most) {
    std::vector<std::uint64_t> some;
    for (std::size_t n = random() % (most + 1); n > 0; --n) some.push_back(random() % 8);
    return some;
  };
  int grouped = 0;
  for (int program = 0; program < 2000; ++program) {
    std::vector<AccessSet> operations;
    for (int i = 0; i < 6; ++i) {
      auto writes = bytes(2);
      writes.push_back(random() % 8);
      operations.push_back(Op("op" + std::to_string(i), bytes(3), writes));
    }
    const std::vector<std::uint32_t> groups = FindIdempotentGroups(operations);
    for (std::uint32_t last = 0; last < operations.size(); ++last) {
      if (groups[last] == kNoGroup) continue;
      if (groups[last] != last) ++grouped;
      const std::size_t done = random() % (operations[last].writes.size() + 1);
      Machine whole, restarted;
      for (std::uint32_t i = 0; i <= last; ++i)
        whole.Run(operations[i], operations[i].writes.size());
      for (std::uint32_t i = 0; i < last; ++i) {
        restarted.Run(operations[i], operations[i].writes.size());
      }
      restarted.Run(operations[last], done);
      for (std::uint32_t i = groups[last]; i <= last; ++i) {
        restarted.Run(operations[i], operations[i].writes.size());
      }
      ASSERT_EQ(whole.memory(), restarted.memory()) << "program " << program << " op " << last;
    }
  }
  EXPECT_GT(grouped, 100);
}

}  // namespace
}  // namespace lagoon
