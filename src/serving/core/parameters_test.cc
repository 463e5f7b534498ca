#include "serving/core/parameters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

namespace lagoon {
namespace {

TEST(Parameters, AreTheSameBothWays) {
  const std::vector<RequestParameter> parameters = {
      {"a", true},
      {"b", std::int64_t{-3}},
      {"c", std::numeric_limits<std::uint64_t>::max()},
      {"d", -0.5},
      {"e", std::string("text \"\n")},
      {"", std::string()}};
  nlohmann::json object = ParametersObject(parameters);
  EXPECT_EQ(object.dump(),
            R"({"":"","a":true,"b":-3,"c":18446744073709551615,"d":-0.5,"e":"text \"\n"})");
  object["priority"] = 1;  // the server's own are left out
  object["triton_x"] = 1;
  auto back = ReadRequestParameters(object);
  ASSERT_TRUE(back) << back.error().message;
  std::rotate(back->begin(), back->begin() + 1, back->end());
  EXPECT_EQ(*back, parameters);
  EXPECT_EQ(ParametersObject({}).dump(), "{}");
}

TEST(Parameters, WrongOnesAreErrors) {
  nlohmann::json many = nlohmann::json::object();
  for (std::size_t i = 0; i < kMostRequestParameters; ++i) many[std::to_string(i)] = i;
  EXPECT_TRUE(ReadRequestParameters(many));
  many["one more"] = 1;
  for (const nlohmann::json& bad :
       {many, nlohmann::json(3), nlohmann::json::array(), nlohmann::json(),
        nlohmann::json{{"a", nullptr}}, nlohmann::json{{"a", nlohmann::json::array({1})}},
        nlohmann::json{{"a", nlohmann::json::object()}}}) {
    const auto read = ReadRequestParameters(bad);
    ASSERT_FALSE(read) << bad;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(Parameters, AreMembersOfAnObjectBehindCommas) {
  const std::vector<RequestParameter> parameters = {
      {"a\"", true}, {"b", std::numeric_limits<double>::infinity()}, {"c", std::string("d")}};
  EXPECT_EQ(ParameterMembers(parameters), R"(,"a\"":true,"b":null,"c":"d")");
  EXPECT_EQ(ParameterMembers({}), "");
}

TEST(Parameters, OfAnAnswerAreAllButThoseThatTheServerWrites) {
  const auto read = ReadAnswerParameters(
      {{"priority", 3}, {"triton_final_response", true}, {"lagoon_stage", 1.0}, {"x", false}});
  ASSERT_TRUE(read) << read.error().message;
  const std::vector<RequestParameter> left = {{"priority", std::int64_t{3}}, {"x", false}};
  EXPECT_EQ(*read, left);
  const auto wrong = ReadAnswerParameters({{"list", {1, 2}}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message,
            "the answer's parameters have 'list', which is no text, number, true or false");
}

}  // namespace
}  // namespace lagoon
