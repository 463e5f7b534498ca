#include "program/link/ordering.h"

#include <gtest/gtest.h>

#include <random>

namespace lagoon {
namespace {

using Deps = std::vector<std::vector<std::uint32_t>>;

TEST(Ordering, FollowsChainsAndKeepsBranchesApart) {
  const Deps deps{{}, {0}, {0}, {1, 2}};
  const Ordering ordering(deps);
  EXPECT_TRUE(ordering.Precedes(0, 3));
  EXPECT_FALSE(ordering.Precedes(3, 0));
  EXPECT_TRUE(ordering.Unordered(1, 2));
  EXPECT_FALSE(ordering.Unordered(0, 1));
  EXPECT_FALSE(ordering.Unordered(2, 2));
}

TEST(ReduceDeps, DropsWhatOthersImplyAndRepetitions) {
  const Deps deps{{}, {0}, {1, 0, 1}, {0, 2}};
  EXPECT_EQ(ReduceDeps(deps), (Deps{{}, {0}, {1}, {2}}));
}

TEST(ReduceDeps, KeepsTheOrderOfRandomGraphs) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    Deps deps(100);  // more than one word of bits
    for (std::uint32_t i = 1; i < deps.size(); ++i) {
      for (std::uint32_t n = random() % 4; n > 0; --n) deps[i].push_back(random() % i);
    }
    const Deps reduced = ReduceDeps(deps);
    const Ordering before(deps), after(reduced);
    for (std::uint32_t i = 0; i < deps.size(); ++i) {
      for (std::uint32_t j = 0; j < i; ++j) {
        ASSERT_EQ(before.Precedes(j, i), after.Precedes(j, i)) << j << " before " << i;
      }
      for (const std::uint32_t dep : reduced[i]) {
        Deps fewer = reduced;
        std::erase(fewer[i], dep);
        ASSERT_FALSE(Ordering(fewer).Precedes(dep, i)) << dep << " of " << i << " is redundant";
      }
    }
  }
}

}  // namespace
}  // namespace lagoon
