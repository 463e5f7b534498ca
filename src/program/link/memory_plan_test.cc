#include "program/link/memory_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace lagoon {
namespace {

using Deps = std::vector<std::vector<std::uint32_t>>;

bool Overlap(const MemoryPlan& plan, const std::vector<BufferUse>& uses, std::size_t a,
             std::size_t b) {
  return plan.offsets[a] < plan.offsets[b] + uses[b].bytes &&
         plan.offsets[b] < plan.offsets[a] + uses[a].bytes;
}

TEST(PlanMemory, ChainNeedsTwoBuffers) {
  // Op i writes buffer i and reads buffer i - 1.
  Deps deps{{}};
  std::vector<BufferUse> uses;
  for (std::uint32_t i = 0; i < 10; ++i) {
    if (i > 0) deps.push_back({i - 1});
    uses.push_back({1000, i, i < 9 ? std::vector{i, i + 1} : std::vector{i}, false});
  }
  const MemoryPlan plan = PlanMemory(uses, Ordering(deps));
  EXPECT_EQ(plan.bytes, 2 * AlignBuffer(1000));
}

TEST(PlanMemory, BranchesThatMayOverlapInTimeShareNothing) {
  // 0 -> {1 -> 2, 3 -> 4} -> 5: a buffer of one branch must not take the place of a buffer of the
  // other, although in list order the first branch ends before the second begins.
  const Deps deps{{}, {0}, {1}, {0}, {3}, {2, 4}};
  const std::vector<BufferUse> uses{{64, 0, {0, 1, 3}, false}, {64, 1, {1, 2}, false},
                                    {64, 2, {2, 5}, false},    {64, 3, {3, 4}, false},
                                    {64, 4, {4, 5}, false},    {64, 5, {5}, false}};
  const MemoryPlan plan = PlanMemory(uses, Ordering(deps));
  for (const std::size_t first : {1U, 2U}) {
    for (const std::size_t second : {3U, 4U}) {
      EXPECT_FALSE(Overlap(plan, uses, first, second)) << first << " and " << second;
    }
  }
  EXPECT_LT(plan.bytes, uses.size() * AlignBuffer(64));
}

TEST(PlanMemory, PinnedBuffersShareNothing) {
  const Deps deps{{}, {0}, {1}};
  const std::vector<BufferUse> uses{
      {64, 0, {0}, true}, {64, 0, {0, 1}, false}, {64, 1, {1, 2}, false}, {64, 2, {2}, true}};
  const MemoryPlan plan = PlanMemory(uses, Ordering(deps));
  for (const std::size_t pinned : {0U, 3U}) {
    for (std::size_t other = 0; other < uses.size(); ++other) {
      EXPECT_EQ(Overlap(plan, uses, pinned, other), other == pinned);
    }
  }
}

TEST(PlanMemory, TakesTheTightestGap) {
  // Five buffers are live at once and are stacked by size. When the second and the fourth are dead,
  // the last one finds gaps of 1024 and 256 bytes between the live ones.
  const Deps deps{{}, {0}, {1}, {2}, {3}, {4}, {5}};
  const std::vector<BufferUse> uses{{4096, 0, {0, 6}, false}, {1024, 1, {1, 5}, false},
                                    {900, 2, {2, 6}, false},  {256, 3, {3, 5}, false},
                                    {250, 4, {4, 6}, false},  {8, 5, {5, 6}, false},
                                    {200, 6, {6}, false}};
  const MemoryPlan plan = PlanMemory(uses, Ordering(deps));
  EXPECT_EQ(plan.offsets[6], plan.offsets[3]);
}

TEST(PlanMemory, RandomGraphsNeverShareWhatIsLive) {
  std::mt19937 random(11);
  for (int round = 0; round < 30; ++round) {
    Deps deps(40);
    std::vector<BufferUse> uses(40);
    for (std::uint32_t i = 0; i < deps.size(); ++i) {
      uses[i].bytes = 1 + random() % 5000;
      uses[i].producer = i;
      uses[i].ops.push_back(i);
      for (std::uint32_t n = i == 0 ? 0 : 1 + random() % 2; n > 0; --n) {
        const std::uint32_t from = i - 1 - random() % std::min(i, 4U);
        deps[i].push_back(from);
        uses[from].ops.push_back(i);
      }
    }
    const Ordering ordering(deps);
    const MemoryPlan plan = PlanMemory(uses, ordering);
    for (std::size_t a = 0; a < uses.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % kBufferAlignment, 0U);
      EXPECT_LE(plan.offsets[a] + uses[a].bytes, plan.bytes);
      for (std::size_t b = 0; b < a; ++b) {
        if (!Overlap(plan, uses, a, b)) continue;
        for (const std::uint32_t op : uses[b].ops) {
          ASSERT_TRUE(ordering.Precedes(op, uses[a].producer)) << a << " over " << b;
        }
      }
    }
  }
}

}  // namespace
}  // namespace lagoon
