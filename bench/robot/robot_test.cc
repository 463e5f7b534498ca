#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/client/onnxruntime_beside.h"
#include "bench/robot/load.h"
#include "bench/robot/systems.h"

namespace lagoon::bench {
namespace {

using ::testing::ElementsAre;

RobotLoad LoadOf(double rate, int clients, int burst) {
  RobotLoad load{{}, RobotCases().front()};
  load.models.resize(3);
  load.scenario.rate = rate;
  load.scenario.clients = clients;
  load.scenario.burst = burst;
  return load;
}

TEST(RobotLoad, RealTimeStreamsComeFirst) {
  const RobotLoad load = LoadOf(10, 2, 1);
  EXPECT_EQ(load.streams(), 4u);
  EXPECT_TRUE(load.RealTime(1));
  EXPECT_FALSE(load.RealTime(2));
  EXPECT_EQ(&load.ModelOf(1), &load.models[0]);
  EXPECT_EQ(&load.ModelOf(3), &load.models[2]);
}

TEST(RobotLoad, EachClientHasAPhaseOfItsOwnAndTheSameSeedGivesTheSameArrivals) {
  const RobotLoad load = LoadOf(10, 2, 1);
  const auto arrivals = load.Arrivals(2, 5);
  ASSERT_EQ(arrivals.size(), 2u);
  for (const auto& one : arrivals) {
    ASSERT_EQ(one.size(), 20u);
    EXPECT_LT(one.front(), 100'000);
    EXPECT_NEAR(one[7] - one[6], 100'000, 1);
  }
  EXPECT_NE(arrivals[0], arrivals[1]);
  EXPECT_EQ(arrivals, load.Arrivals(2, 5));
  EXPECT_NE(arrivals, load.Arrivals(2, 6));
}

TEST(RobotLoad, EveryTwentiethArrivalIsABurst) {
  const std::vector<double> arrivals = LoadOf(20, 1, 3).Arrivals(2, 1).front();
  EXPECT_EQ(arrivals.size(), 40u + 2 * 2);
  EXPECT_EQ(std::ranges::count(arrivals, arrivals.front()), 3);
  EXPECT_TRUE(std::ranges::is_sorted(arrivals));
}

TEST(RobotSystems, ATransportIsInTheNameWhereThereAreSeveral) {
  const auto names = [](const std::vector<std::string>& transports) {
    std::vector<std::string> found;
    const auto systems =
        ParseRobotSystems({"lagoon:paella:depth=2", "onnxruntime:idle"}, transports);
    for (const RobotSystemName& system : *systems) found.push_back(system.name);
    return found;
  };
  EXPECT_THAT(names({"http"}), ElementsAre("lagoon:paella:depth=2", "onnxruntime:idle"));
  EXPECT_THAT(names({"grpc", "process"}),
              ElementsAre("lagoon:paella:depth=2@grpc", "lagoon:paella:depth=2@process",
                          "onnxruntime:idle"));
}

TEST(BestSetting, KeepsThePromiseThenDoesTheMostWork) {
  EXPECT_EQ(BestSetting({{2.5, false, 9}, {1.1, false, 3}, {1.05, false, 4}, {1, true, 5}}), 2u);
}

TEST(BestSetting, HasTheShortestTailWhereNoneKeepsThePromise) {
  EXPECT_EQ(BestSetting({{2.5, false, 9}, {1.3, true, 3}, {1.2, false, 1}}), 2u);
}

}  // namespace
}  // namespace lagoon::bench
