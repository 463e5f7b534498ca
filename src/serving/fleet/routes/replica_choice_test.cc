#include "serving/fleet/routes/replica_choice.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace lagoon {
namespace {

/// How often each replica is picked, of `count` picks. The queues stay as they are.
std::vector<int> Picks(const std::vector<ReplicaState>& replicas, int count,
                       std::optional<std::size_t> avoid = std::nullopt) {
  Random random(7);
  std::vector<int> picks(replicas.size());
  for (int i = 0; i < count; ++i) {
    const auto pick = PickReplica(replicas, avoid, {random.Uniform(), random.Uniform()});
    if (pick) ++picks[*pick];
  }
  return picks;
}

TEST(PickReplica, FollowsTheFractionsWhileQueuesFollowThem) {
  for (const std::uint64_t busy : {0, 4}) {
    const auto picks =
        Picks({{0.5, 2 * busy, true}, {0.25, busy, true}, {0.25, busy, true}}, 10'000);
    EXPECT_NEAR(picks[0], 5000, 200) << busy;
    EXPECT_NEAR(picks[1], 2500, 200) << busy;
    EXPECT_NEAR(picks[2], 2500, 200) << busy;
  }
}

TEST(PickReplica, TakesTheShorterQueueOfTheTwoDrawn) {
  const std::vector<ReplicaState> replicas = {{0.5, 9, true}, {0.5, 3, true}};
  EXPECT_EQ(PickReplica(replicas, {}, {0.1, 0.9}), 1U);
  EXPECT_EQ(PickReplica(replicas, {}, {0.9, 0.1}), 1U);
  EXPECT_EQ(PickReplica(replicas, {}, {0.1, 0.2}), 1U);  // the second draw is of the others
  const auto picks = Picks(replicas, 1000);
  EXPECT_EQ(picks[0], 0) << "of two replicas the busier one gets nothing";
}

TEST(PickReplica, ComparesQueuesByFraction) {
  // Three times the requests and three times the fraction: a tie, which the first draw wins.
  const std::vector<ReplicaState> replicas = {{0.75, 6, true}, {0.25, 2, true}};
  EXPECT_EQ(PickReplica(replicas, {}, {0.5, 0.95}), 0U);
  EXPECT_EQ(PickReplica(replicas, {}, {0.95, 0.5}), 1U);
  const std::vector<ReplicaState> behind = {{0.75, 7, true}, {0.25, 2, true}};
  EXPECT_EQ(PickReplica(behind, {}, {0.5, 0.95}), 1U);
}

TEST(PickReplica, SharesTheFractionOfAReplicaThatIsNotReady) {
  const auto picks = Picks({{0.5, 0, false}, {0.25, 0, true}, {0.25, 0, true}}, 10'000);
  EXPECT_EQ(picks[0], 0);
  EXPECT_NEAR(picks[1], 5000, 200);
}

TEST(PickReplica, NeverTakesTheReplicaToAvoid) {
  const auto picks = Picks({{0.9, 0, true}, {0.1, 50, true}}, 1000, 0);
  EXPECT_EQ(picks[0], 0);
  EXPECT_EQ(picks[1], 1000);
}

TEST(PickReplica, ReplicasWithoutAFractionStandInForOthers) {
  EXPECT_EQ(Picks({{1, 3, true}, {0, 0, true}}, 1000)[1], 0);
  const auto picks = Picks({{1, 0, false}, {0, 0, true}, {0, 0, true}}, 1000);
  EXPECT_EQ(picks[0], 0);
  EXPECT_GT(picks[1], 300);
  EXPECT_GT(picks[2], 300);
}

TEST(PickReplica, NothingIsReady) {
  EXPECT_EQ(PickReplica({}, {}, {0, 0}), std::nullopt);
  const std::vector<ReplicaState> lost = {{0.5, 0, false}, {0.5, 0, false}};
  EXPECT_EQ(PickReplica(lost, {}, {0.3, 0.6}), std::nullopt);
  const std::vector<ReplicaState> one = {{1, 0, true}};
  EXPECT_EQ(PickReplica(one, 0, {0.3, 0.6}), std::nullopt);
}

TEST(PickReplica, DrawsAtTheEndsPickAReplicaWithAFraction) {
  const std::vector<ReplicaState> replicas = {{0, 0, true}, {0.1, 0, true}, {0, 0, true}};
  EXPECT_EQ(PickReplica(replicas, {}, {0, 0}), 1U);
  EXPECT_EQ(PickReplica(replicas, {}, {0.9999999999999999, 0.9999999999999999}), 1U);
}

}  // namespace
}  // namespace lagoon
