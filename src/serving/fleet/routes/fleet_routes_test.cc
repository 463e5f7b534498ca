#include "serving/fleet/routes/fleet_routes.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace lagoon {
namespace {

TEST(FleetRoutes, AModelWithoutReplicaGetsNoRequest) {
  FleetRoutes routes;
  EXPECT_FALSE(routes.Begin("m"));
  routes.Set("m", {{0, 1}});
  EXPECT_TRUE(routes.Begin("m"));
  routes.Set("m", {});
  EXPECT_FALSE(routes.Begin("m"));
  EXPECT_TRUE(routes.All().empty());
}

TEST(FleetRoutes, AModelIsForgottenWhenItHasNeitherRoutesNorRequests) {
  FleetRoutes routes;
  routes.Set("m", {{0, 1}});
  const auto begun = routes.Begin("m");
  EXPECT_FALSE(routes.Forget("m")) << "it has a route";
  routes.Set("m", {});
  EXPECT_FALSE(routes.Forget("m")) << "it has a request";
  EXPECT_EQ(routes.Loads().count("m"), 1u);
  routes.End(begun->handle);
  EXPECT_TRUE(routes.Forget("m"));
  EXPECT_EQ(routes.Loads().count("m"), 0u);
  EXPECT_FALSE(routes.Begin("m"));
  EXPECT_TRUE(routes.Forget("m"));
}

TEST(FleetRoutes, SplitsRequestsInProportionToTheFractions) {
  FleetRoutes routes(7);
  routes.Set("m", {{0, 0.75}, {1, 0.25}});
  std::vector<int> counts(2);
  constexpr int kRequests = 4000;
  for (int i = 0; i < kRequests; ++i) {
    const auto begun = routes.Begin("m");
    ASSERT_TRUE(begun);
    ++counts[begun->member];
    routes.End(begun->handle);  // so that queues do not matter
  }
  // The standard deviation is 27 requests.
  EXPECT_NEAR(counts[0], 0.75 * kRequests, 150);
  EXPECT_EQ(routes.Loads()["m"][0].requests, static_cast<std::uint64_t>(counts[0]));
  EXPECT_EQ(routes.Loads()["m"][0].in_flight, 0u);
}

TEST(FleetRoutes, OfTwoReplicasTheOneWithTheShorterQueueIsTaken) {
  FleetRoutes routes(3);
  routes.Set("m", {{0, 1}, {1, 1}});
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(routes.Begin("m"));
  const auto loads = routes.Loads()["m"];
  const auto difference = static_cast<std::int64_t>(loads.at(0).in_flight) -
                          static_cast<std::int64_t>(loads.at(1).in_flight);
  // Without the second draw the difference has a standard deviation of 32.
  EXPECT_LE(std::abs(difference), 12);
}

TEST(FleetRoutes, NewRoutesLeaveRequestsInFlightWhereTheyAre) {
  FleetRoutes routes;
  routes.Set("m", {{0, 1}});
  const auto begun = routes.Begin("m");
  EXPECT_FALSE(routes.Taken(begun->handle, 0, RequestHandle{70}));
  routes.Set("m", {{1, 1}});
  EXPECT_EQ(routes.Begin("m")->member, 1u);
  EXPECT_EQ(routes.Loads()["m"][0].in_flight, 1u);
  const auto cancel = routes.Cancel(begun->handle);
  ASSERT_TRUE(cancel);
  EXPECT_EQ(cancel->first, 0u);
  EXPECT_EQ(cancel->second, RequestHandle{70});
  routes.End(begun->handle);
  routes.End(begun->handle);  // a second time does nothing
  EXPECT_EQ(routes.Loads()["m"][0].in_flight, 0u);
  EXPECT_FALSE(routes.Cancel(begun->handle));
}

TEST(FleetRoutes, ACancellationBeforeTheMemberHasTheRequestIsRemembered) {
  FleetRoutes routes;
  routes.Set("m", {{0, 1}});
  const auto begun = routes.Begin("m");
  EXPECT_FALSE(routes.Cancel(begun->handle)) << "the member does not know the request yet";
  EXPECT_TRUE(routes.Taken(begun->handle, 0, RequestHandle{7})) << "the caller cancels it now";
  const auto answered = routes.Begin("m");
  routes.End(answered->handle);
  EXPECT_FALSE(routes.Taken(answered->handle, 0, RequestHandle{8}));
}

TEST(FleetRoutes, QueuesAreComparedInProportionToTheFractions) {
  FleetRoutes routes(3);
  routes.Set("m", {{0, 0.9}, {1, 0.1}});
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(routes.Begin("m"));
  // With the numbers of requests alone, the replica of 0.1 gets 19 % of them.
  EXPECT_NEAR(static_cast<double>(routes.Loads()["m"].at(1).in_flight), 100, 15);
}

TEST(FleetRoutes, TellsTheRequestsOfAReplica) {
  FleetRoutes routes;
  EXPECT_TRUE(routes.InFlight("m", 0).empty()) << "it never had a request";
  routes.Set("m", {{0, 1}});
  const auto first = *routes.Begin("m"), second = *routes.Begin("m");
  routes.Set("m", {{1, 1}});
  const auto other = *routes.Begin("m");
  EXPECT_EQ(routes.InFlight("m", 0).size(), 2U);
  routes.End(first.handle);
  EXPECT_EQ(routes.InFlight("m", 0), std::vector<RequestHandle>{second.handle});
  routes.End(second.handle);
  EXPECT_TRUE(routes.InFlight("m", 0).empty());
  EXPECT_EQ(routes.InFlight("m", 1), std::vector<RequestHandle>{other.handle});
}

TEST(FleetRoutes, ARequestGoesToASecondMemberOnce) {
  FleetRoutes routes;
  routes.Set("m", {{0, 1}, {1, 1}, {2, 1}});
  const FleetRoutes::Look first_only = [](std::size_t member) {
    return FleetRoutes::Seen{.ready = member == 0};
  };
  const auto begun = routes.Begin("m", first_only);
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->member, 0U);
  EXPECT_FALSE(routes.Again(begun->handle, first_only)) << "no other replica is ready";
  const auto second = routes.Again(begun->handle);
  ASSERT_TRUE(second);
  EXPECT_NE(*second, 0U);
  EXPECT_EQ(routes.Loads()["m"][0].in_flight, 0U);
  EXPECT_EQ(routes.Loads()["m"][*second].in_flight, 1U);
  EXPECT_FALSE(routes.Again(begun->handle)) << "it has been to two members";
  EXPECT_FALSE(routes.Taken(begun->handle, 0, RequestHandle{7})) << "that member is not asked now";
  EXPECT_FALSE(routes.Cancel(begun->handle)) << "the second member does not know the request yet";
  EXPECT_TRUE(routes.Taken(begun->handle, *second, RequestHandle{8}));
  const auto cancelled = routes.Begin("m");
  EXPECT_FALSE(routes.Cancel(cancelled->handle));
  EXPECT_FALSE(routes.Again(cancelled->handle)) << "it was cancelled";
}

TEST(FleetRoutes, OfMembersThatAreNotReadyTheFirstOneSaysWhy) {
  FleetRoutes routes;
  routes.Set("m", {{3, 1}, {4, 1}});
  const auto begun =
      routes.Begin("m", [](std::size_t) { return FleetRoutes::Seen{.ready = false}; });
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->member, 3U);
}

TEST(FleetRoutes, AReplicaThatLosesItsRouteWhileItIsChosenGetsNothing) {
  FleetRoutes routes;
  const auto moved_to = [&routes](std::vector<FleetRoute> moved) -> FleetRoutes::Look {
    return [&routes, moved = std::move(moved)](std::size_t) {
      routes.Set("m", moved);
      return FleetRoutes::Seen();
    };
  };
  routes.Set("m", {{0, 1}, {1, 1}});
  const auto begun = routes.Begin("m", moved_to({{2, 1}, {3, 1}}));
  ASSERT_TRUE(begun);
  EXPECT_EQ(begun->member, 2U);
  EXPECT_EQ(routes.Again(begun->handle, moved_to({{2, 1}, {4, 1}})), 4U);
  EXPECT_FALSE(routes.Begin("m", moved_to({})));
}

TEST(FleetRoutes, OnlyTheHighestVersionOfReadyMembersIsChosen) {
  FleetRoutes routes;
  routes.Set("m", {{0, 1}, {1, 1}, {2, 1}, {3, 1}});
  const std::vector<std::string> latest{"9", "10", "10", "11"};
  const auto look = [&latest](std::size_t member) {
    return FleetRoutes::Seen{.ready = member != 3, .latest = latest[member]};
  };
  for (int i = 0; i < 20; ++i) {
    const auto begun = routes.Begin("m", look);
    ASSERT_TRUE(begun);
    EXPECT_TRUE(begun->member == 1 || begun->member == 2) << begun->member;
    EXPECT_EQ(routes.Again(begun->handle, look), 3 - begun->member);
    routes.End(begun->handle);
  }
}

TEST(FleetRoutes, AMemberLeavesWhenItsRequestsAreAnswered) {
  FleetRoutes routes;
  routes.Set("m", {{0, 1}});
  const auto begun = routes.Begin("m");
  EXPECT_FALSE(routes.Leave(0));
  EXPECT_FALSE(routes.Begin("m")) << "no route leads there any more";
  routes.End(begun->handle);
  EXPECT_TRUE(routes.Leave(0));
  EXPECT_TRUE(routes.Loads()["m"].empty());
}

}  // namespace
}  // namespace lagoon
