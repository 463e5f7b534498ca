#include "base/json_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace lagoon {
namespace {

using ::testing::HasSubstr;

struct Part {
  std::string name;
  double fraction = 0.5;
  std::uint8_t count = 7;
  std::optional<bool> on;
  std::vector<std::string> words;
};

Result<Part> Read(std::string_view text) {
  Part part;
  const auto word = [&](const nlohmann::json& entry) {
    return ReadFields(entry, {JsonField::Text("word", part.words.emplace_back(), /*least=*/0)});
  };
  LAGOON_RETURN_IF_ERROR(ReadJson(
      text, {JsonField::Text("name", part.name)},
      {JsonField::Number("fraction", 0, 1, part.fraction), JsonField::Whole("count", part.count),
       JsonField::Flag("on", [&](bool on) { part.on = on; }),
       JsonField::List("words", "objects", word)}));
  return part;
}

std::string ErrorOf(std::string_view text) {
  const auto part = Read(text);
  EXPECT_TRUE(part || part.error().code == ErrorCode::kInvalidArgument) << text;
  return part ? "" : part.error().message;
}

TEST(JsonFields, AreReadToTheirPlaces) {
  const auto part = Read(R"({"name": "a", "fraction": 1, "count": 255, "on": true,
                             "words": [{"word": "b"}, {"word": ""}]})");
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->name, "a");
  EXPECT_EQ(part->fraction, 1);
  EXPECT_EQ(part->count, 255);
  EXPECT_EQ(part->on, true);
  EXPECT_EQ(part->words, (std::vector<std::string>{"b", ""}));
}

TEST(JsonFields, ThatAreOptionalKeepTheirValues) {
  const auto part = Read(R"({"name": "a"})");
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->fraction, 0.5);
  EXPECT_EQ(part->count, 7);
  EXPECT_FALSE(part->on);
}

TEST(JsonFields, AreRefusedByNameAndValue) {
  EXPECT_EQ(ErrorOf("{}"), "has no 'name', which is a text that is not empty");
  EXPECT_EQ(
      ErrorOf(R"({"name": "a", "b": [1]})"),
      "has the unknown field 'b', which is '[1]'; there are name, fraction, count, on, words");
  EXPECT_EQ(ErrorOf(R"({"name": ""})"), "'name' is '\"\"'; it takes a text that is not empty");
  EXPECT_EQ(ErrorOf(R"({"name": null})"), "'name' is 'null'; it takes a text that is not empty");
  EXPECT_EQ(ErrorOf(R"({"name": "a", "fraction": 1.01})"),
            "'fraction' is '1.01'; it takes a number from 0 to 1");
  for (const char* fraction : {"-0.1", "\"1\"", "true", "1e300", "[1]"}) {
    EXPECT_THAT(ErrorOf(std::string(R"({"name": "a", "fraction": )") + fraction + "}"),
                HasSubstr("it takes a number from 0 to 1"));
  }
  for (const char* count : {"256", "-1", "1.5", "\"1\"", "18446744073709551616"}) {
    EXPECT_THAT(ErrorOf(std::string(R"({"name": "a", "count": )") + count + "}"),
                HasSubstr("it takes a whole number from 0 to 255"));
  }
  EXPECT_EQ(ErrorOf(R"({"name": "a", "on": 1})"), "'on' is '1'; it takes true or false");
}

TEST(JsonFields, OfListsAreRefusedWithTheirPlace) {
  EXPECT_EQ(ErrorOf(R"({"name": "a", "words": {}})"),
            "'words' is '{}'; it takes a list of objects");
  EXPECT_EQ(ErrorOf(R"({"name": "a", "words": [{"word": "b"}, {"word": 3}]})"),
            "'words': entry 1: 'word' is '3'; it takes a text");
  EXPECT_EQ(ErrorOf(R"({"name": "a", "words": [3]})"),
            "'words': entry 0: is '3', not an object: {\"word\": a text}");
}

TEST(JsonFields, TextsThatAreNoObjectAreToldWhatIs) {
  EXPECT_THAT(ErrorOf("nonsense"),
              HasSubstr(R"(is not JSON: 'nonsense'; it takes {"name": a text)"));
  EXPECT_THAT(ErrorOf("[1]"), HasSubstr(R"(is '[1]', not an object: {"name": a text)"));
  using std::string_literals::operator""s;
  for (const std::string& text : {""s, "{"s, "{}x"s, "{\"name\": \"a\"}\0"s, "{\"name\": NaN}"s,
                                  "{\"name\": \"\xff\"}"s, "{\"name\": 1e999}"s}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("is not JSON")) << text;
  }
}

TEST(ParseJson, RefusesAFieldThatIsThereTwice) {
  EXPECT_THAT(ErrorOf(R"({"name": "a", "name": "b"})"), HasSubstr("has 'name' twice"));
  EXPECT_FALSE(ParseJson(R"([{"a": {"b": 1, "b": 2}}])"));
  EXPECT_TRUE(ParseJson(R"([{"a": 1}, {"a": {"a": 2}}, {"a": 3}])"));
}

TEST(ParseJson, RefusesNestingThatWouldUseUpTheStack) {
  const auto nested = [](std::size_t levels) {
    return std::string(levels, '[') + std::string(levels, ']');
  };
  EXPECT_TRUE(ParseJson(nested(64)));
  for (const std::size_t levels : {100, 1'000'000}) {
    const auto parsed = ParseJson(nested(levels));
    ASSERT_FALSE(parsed);
    EXPECT_THAT(parsed.error().message, HasSubstr("nested more than 64 levels deep"));
  }
}

}  // namespace
}  // namespace lagoon
