#include "server/fleet/fleet_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(FromBase64, ReadsBytes) {
  EXPECT_EQ(FromBase64("").value(), "");
  EXPECT_EQ(FromBase64("TQ==").value(), "M");
  EXPECT_EQ(FromBase64("TWE=").value(), "Ma");
  EXPECT_EQ(FromBase64("TWFu").value(), "Man");
  EXPECT_EQ(FromBase64("AP/+/w==").value(), std::string("\0\xff\xfe\xff", 4));
  for (const char* text :
       {"T", "TQ", "TQ=", "TQ===", "T===", "====", "TW=u", "TW\nu", "TWF-", "TQ==TQ=="}) {
    const auto bytes = FromBase64(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(bytes.error().message, HasSubstr("is not base64"));
  }
}

TEST(ParseRepositoryBody, ReadsWhatALoadGives) {
  const auto with = ParseRepositoryBody(
      R"({"parameters":{"config":"{}","file:1/model.onnx":"TWFu","unload_dependents":true}})");
  ASSERT_TRUE(with) << with.error().message;
  EXPECT_EQ(with->config, "{}");
  EXPECT_TRUE(with->with_steps);
  EXPECT_THAT(with->files, ElementsAre(Pair("1/model.onnx", "Man")));
  for (const char* none : {"", "{}", R"({"parameters":null})", R"({"parameters":{}})"}) {
    EXPECT_TRUE(ParseRepositoryBody(none)->empty()) << none;
  }
}

TEST(ParseRepositoryBody, NamesWhatIsWrong) {
  const struct {
    const char* parameters;
    const char* says;
  } cases[] = {{R"({"config":{}})", "'config'"},
               {R"({"config":1})", "'config'"},
               {R"({"file:1/model.onnx":7})", "'file:1/model.onnx'"},
               {R"({"file:1/model.onnx":"?"})", "parameter 'file:1/model.onnx': is not base64"},
               {R"({"unload_dependents":1})", "must be true or false"},
               {R"({"reload":true})", "'reload'"},
               {R"([1])", "'parameters' is no JSON object"}};
  for (const auto& [parameters, says] : cases) {
    const auto with = ParseRepositoryBody(std::string(R"({"parameters":)") + parameters + "}");
    ASSERT_FALSE(with) << parameters;
    EXPECT_THAT(with.error().message, HasSubstr(says));
  }
  EXPECT_FALSE(ParseRepositoryBody("[]"));
  EXPECT_FALSE(ParseRepositoryBody("{"));
}

}  // namespace
}  // namespace lagoon
