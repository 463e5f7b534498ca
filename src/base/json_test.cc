#include "base/json.h"

#include <gtest/gtest.h>

namespace lagoon {
namespace {

TEST(Json, WritesWhatIsNotUtf8) {
  const nlohmann::json json = {{"bad\xff", "a\xc3"}};
  const std::string text = DumpJson(json);
  EXPECT_EQ(text, "{\"bad\xef\xbf\xbd\":\"a\xef\xbf\xbd\"}");
  EXPECT_TRUE(nlohmann::json::accept(text));
}

TEST(Json, WritesWhatIsUtf8AsItIs) {
  EXPECT_EQ(JsonString("\xc3\xa4\"\n"), "\"\xc3\xa4\\\"\\n\"");
  const nlohmann::ordered_json json = {{"b", 1}, {"a", {1, 2}}};
  EXPECT_EQ(DumpJson(json), R"({"b":1,"a":[1,2]})");
  EXPECT_EQ(DumpJson(nlohmann::json("\xc3\xa4\xff"), -1, /*ascii=*/true), R"("\u00e4\ufffd")");
  EXPECT_EQ(DumpJson(nlohmann::json{{"a", 1}}, 2), "{\n  \"a\": 1\n}");
}

}  // namespace
}  // namespace lagoon
