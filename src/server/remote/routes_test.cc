#include "server/remote/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lagoon {
namespace {

using testing::HasSubstr;

TEST(Routes, AreReadWhole) {
  const auto routes = ParseRoutesJson(R"({"epoch": 3,
      "members": [{"name": "a", "address": "10.0.0.1:8001"}, {"name": "b", "address": "[::1]:2"}],
      "models": {"m": [{"member": "a", "fraction": 0.75}, {"member": "b", "fraction": 0.25}],
                 "n": [{"member": "b", "fraction": 1}]}})");
  ASSERT_TRUE(routes) << routes.error().message;
  EXPECT_EQ(routes->epoch, 3U);
  ASSERT_EQ(routes->members.size(), 2U);
  EXPECT_EQ(routes->members[1], (RouteMember{"b", "[::1]:2"}));
  ASSERT_TRUE(routes->models);
  EXPECT_EQ(routes->models->at("m"),
            (std::vector<RouteReplica>{RouteReplica{"a", 0.75}, RouteReplica{"b", 0.25}}));
  EXPECT_EQ(routes->models->at("n").front().member, "b");
}

TEST(Routes, MayLeaveOutModelsAndEpoch) {
  const auto routes = ParseRoutesJson(R"({"members": []})");
  ASSERT_TRUE(routes) << routes.error().message;
  EXPECT_EQ(*routes, Routes{});
}

TEST(Routes, OfAMemberListAreNamedByTheAddresses) {
  const auto routes = ParseMemberList("127.0.0.1:8001,host:9");
  ASSERT_TRUE(routes) << routes.error().message;
  EXPECT_EQ(routes->members,
            (std::vector<RouteMember>{RouteMember{"127.0.0.1:8001", "127.0.0.1:8001"},
                                      RouteMember{"host:9", "host:9"}}));
  EXPECT_FALSE(routes->models);
}

TEST(Routes, AreRefusedWithTheFieldAndItsValue) {
  const std::string a = R"("members": [{"name": "a", "address": "h:1"}])";
  const std::pair<std::string, std::string> cases[] = {
      {"", "no JSON object"},
      {"[]", "no JSON object"},
      {"{\"members\": [], \"\\ud800\": 1}", "no JSON object"},
      {R"({"members": [], "modells": {}})", "unknown field 'modells'"},
      {R"({"members": {}})", "'members' is missing, or no list"},
      {R"({"models": {}})", "'members' is missing, or no list"},
      {R"({"members": [1]})", "a member is '1'"},
      {R"({"members": [{"name": "a"}]})", "needs the text 'address'"},
      {R"({"members": [{"name": "", "address": "h:1"}]})", "names have 1 to 256"},
      {R"({"members": [{"name": "a", "address": "h"}]})", "'h' is not host:port"},
      {R"({"members": [{"name": "a", "address": ":1"}]})", "':1' is not host:port"},
      {R"({"members": [{"name": "a", "address": "h:0"}]})", "'h:0' is not host:port"},
      {R"({"members": [{"name": "a", "address": "h:65536"}]})", "'h:65536' is not host:port"},
      {R"({"members": [{"name": "a", "address": "h:1x"}]})", "'h:1x' is not host:port"},
      {R"({"members": [{"name": "a", "address": "h:1"}, {"name": "a", "address": "h:2"}]})",
       "two members have the name 'a'"},
      {"{" + a + R"(, "epoch": -1})", "'epoch' is '-1'"},
      {"{" + a + R"(, "epoch": 1.5})", "'epoch' is '1.5'"},
      {"{" + a + R"(, "models": []})", "'models' is '[]'"},
      {"{" + a + R"(, "models": {"m": 1}})", "model 'm': '1' is no list"},
      {"{" + a + R"(, "models": {"m": [{"member": "b", "fraction": 1}]}})", "'b' is no member"},
      {"{" + a + R"(, "models": {"m": [{"member": "a"}]}})", "needs the number 'fraction'"},
      {"{" + a + R"(, "models": {"m": [{"member": "a", "fraction": 1.1}]}})", "fraction 1.1"},
      {"{" + a + R"(, "models": {"m": [{"member": "a", "fraction": -1}]}})", "fraction -1"},
      {"{" + a + R"(, "models": {"m": [{"member": "a", "fraction": 1e999}]}})", "routes: "},
      {"{" + a + R"(, "models": {"m": [{"member": "a", "fraction": 0}]}})",
       "no replica has a fraction above 0"},
      {"{" + a + R"(, "models": {"m": [{"member": "a", "fraction": 1},
                                       {"member": "a", "fraction": 0}]}})",
       "two replicas at member 'a'"},
  };
  for (const auto& [text, message] : cases) {
    const auto routes = ParseRoutesJson(text);
    ASSERT_FALSE(routes) << text;
    EXPECT_EQ(routes.error().code, ErrorCode::kInvalidArgument) << text;
    EXPECT_THAT(routes.error().message, HasSubstr(message)) << text;
  }
}

TEST(Routes, MemberListsAreRefusedWithTheAddress) {
  for (const char* text : {"", ",", "h:1,", "h:1,,h:2", "h", "h:1,h:1"}) {
    EXPECT_FALSE(ParseMemberList(text)) << text;
  }
}

TEST(Routes, LargeTextsAreRefusedUnread) {
  const auto routes = ParseRoutesJson(std::string(Routes::kMostBytes + 1, ' '));
  ASSERT_FALSE(routes);
  EXPECT_THAT(routes.error().message, HasSubstr("the limit is"));
}

TEST(ParseRoutesJson, AModelMayHaveNoReplicaForNow) {
  const auto routes = ParseRoutesJson(R"({"members": [], "models": {"m": []}})");
  ASSERT_TRUE(routes.has_value()) << routes.error().message;
  ASSERT_TRUE(routes->models.has_value());
  EXPECT_TRUE(routes->models->at("m").empty());
}

TEST(Routes, EveryEpochHasALaterOne) {
  EXPECT_TRUE(IsLater(1, 0));
  EXPECT_FALSE(IsLater(0, 0));
  EXPECT_FALSE(IsLater(4, 5));
  constexpr std::uint64_t kLargest = ~std::uint64_t{0};
  EXPECT_TRUE(IsLater(0, kLargest));
  EXPECT_FALSE(IsLater(kLargest, 0)) << "too far ahead: an earlier one";
  EXPECT_TRUE(IsLater(kLargest, kLargest - 1));
}

}  // namespace
}  // namespace lagoon
