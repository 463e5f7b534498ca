#include "ort/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace lagoon::plugin {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Found = std::vector<std::vector<std::size_t>>;

constexpr std::size_t kAll = 1;  // of least nodes

PartitionNode Runs(std::vector<std::size_t> inputs) { return {true, std::move(inputs)}; }
PartitionNode Foreign(std::vector<std::size_t> inputs) { return {false, std::move(inputs)}; }

TEST(OrtPartition, AChainWithAForeignNodeIsTwoGroups) {
  const std::vector<PartitionNode> nodes = {Runs({}), Runs({0}), Foreign({1}), Runs({2}),
                                            Runs({3})};
  EXPECT_THAT(Partition(nodes, kAll), ElementsAre(ElementsAre(0, 1), ElementsAre(3, 4)));
}

TEST(OrtPartition, APathThatLeavesAndComesBackIsNotJoined) {
  // 0 -> 1 (foreign) -> 2, and 0 -> 2.
  const std::vector<PartitionNode> nodes = {Runs({}), Foreign({0}), Runs({0, 1})};
  EXPECT_THAT(Partition(nodes, kAll), ElementsAre(ElementsAre(0), ElementsAre(2)));
}

TEST(OrtPartition, ABranchBesideAForeignNodeIsJoined) {
  // 0 -> 1 (foreign) -> 3, 0 -> 2 -> 3: 2 joins 0, 3 does not.
  const std::vector<PartitionNode> nodes = {Runs({}), Foreign({0}), Runs({0}), Runs({1, 2})};
  EXPECT_THAT(Partition(nodes, kAll), ElementsAre(ElementsAre(0, 2), ElementsAre(3)));
}

TEST(OrtPartition, ANodeJoinsTheGroupsThatItReads) {
  const std::vector<PartitionNode> nodes = {Runs({}), Runs({}), Runs({0, 1})};
  EXPECT_THAT(Partition(nodes, kAll), ElementsAre(ElementsAre(0, 1, 2)));
}

TEST(OrtPartition, SmallGroupsStayOutside) {
  const std::vector<PartitionNode> nodes = {Runs({}),     Foreign({0}), Runs({1}), Runs({2}),
                                            Foreign({3}), Runs({4}),    Runs({5}), Runs({6})};
  EXPECT_THAT(Partition(nodes, 2), ElementsAre(ElementsAre(2, 3), ElementsAre(5, 6, 7)));
  EXPECT_THAT(Partition(nodes, 3), ElementsAre(ElementsAre(5, 6, 7)));
  EXPECT_THAT(Partition(nodes, 4), IsEmpty());
}

// The graph of groups, every node outside of them by itself, has no circle.
bool HasCircle(const std::vector<PartitionNode>& nodes, const Found& groups) {
  std::vector<std::size_t> of(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) of[i] = groups.size() + i;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (const std::size_t node : groups[g]) of[node] = g;
  }
  std::vector<std::vector<std::size_t>> reads(groups.size() + nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const std::size_t input : nodes[i].inputs) {
      if (of[input] != of[i]) reads[of[i]].push_back(of[input]);
    }
  }
  std::vector<int> state(reads.size(), 0);
  const std::function<bool(std::size_t)> visit = [&](std::size_t group) {
    if (state[group] == 1) return true;
    if (state[group] == 2) return false;
    state[group] = 1;
    for (const std::size_t next : reads[group]) {
      if (visit(next)) return true;
    }
    state[group] = 2;
    return false;
  };
  for (std::size_t group = 0; group < reads.size(); ++group) {
    if (visit(group)) return true;
  }
  return false;
}

TEST(OrtPartition, GroupsOfRandomGraphsAreSupportedAndHaveNoCircle) {
  std::mt19937 random(33);
  for (int round = 0; round < 300; ++round) {
    std::vector<PartitionNode> nodes(2 + random() % 40);
    std::size_t supported = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      nodes[i].supported = random() % 4 != 0;
      supported += nodes[i].supported;
      for (std::size_t k = random() % 4; k > 0 && i > 0; --k) {
        nodes[i].inputs.push_back(random() % i);
      }
    }
    const Found groups = Partition(nodes, kAll);
    std::size_t in_groups = 0;
    for (const auto& group : groups) {
      for (const std::size_t node : group) EXPECT_TRUE(nodes[node].supported);
      in_groups += group.size();
    }
    EXPECT_EQ(in_groups, supported) << "round " << round;
    EXPECT_FALSE(HasCircle(nodes, groups)) << "round " << round;
  }
}

}  // namespace
}  // namespace lagoon::plugin
