#include "server/extensions/server_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/log.h"
#include "server/testing/http_server_test_base.h"

namespace lagoon {
namespace {

using testing::HasSubstr;

class Settings : public HttpServer {
 protected:
  ~Settings() override { spdlog::set_level(before_); }
  HttpTestResponse AskOperators(std::string_view request) {
    HttpTestClient client(server_->metrics_port());
    EXPECT_TRUE(client.Send(request));
    return client.Receive();
  }

  const spdlog::level::level_enum before_ = spdlog::get_level();
};

TEST_F(Settings, TheLevelOfTheLogFollowsTritonsSwitches) {
  spdlog::set_level(spdlog::level::info);
  const auto level_after = [](const LogSettings& changes) {
    EXPECT_TRUE(ChangeLogSettings(changes));
    return spdlog::get_level();
  };
  EXPECT_EQ(level_after({}), spdlog::level::info);
  EXPECT_EQ(level_after({{"log_verbose_level", std::uint64_t{3}}}), spdlog::level::debug);
  EXPECT_EQ(level_after({{"log_verbose_level", std::uint64_t{0}}}), spdlog::level::info);
  EXPECT_EQ(level_after({{"log_info", false}}), spdlog::level::warn);
  EXPECT_EQ(level_after({{"log_warning", false}}), spdlog::level::err);
  EXPECT_EQ(level_after({{"log_error", false}}), spdlog::level::off);
  EXPECT_EQ(level_after({{"log_warning", true}}), spdlog::level::warn);
  EXPECT_EQ(std::get<bool>(ReadLogSettings()["log_error"]), true);
  EXPECT_EQ(level_after(ReadLogSettings()), spdlog::level::warn);
}

TEST_F(Settings, AWrongLogSettingChangesNothing) {
  spdlog::set_level(spdlog::level::info);
  for (const LogSettings& wrong : {LogSettings{{"log_info", false}, {"log_loud", true}},
                                   {{"log_info", std::uint64_t{0}}},
                                   {{"log_verbose_level", true}},
                                   {{"log_verbose_level", std::uint64_t{1} << 40}},
                                   {{"log_warning", false}},
                                   {{"log_info", false}, {"log_error", false}},
                                   {{"log_info", false}, {"log_verbose_level", std::uint64_t{1}}},
                                   {{"log_file", "/etc/passwd"}},
                                   {{"log_format", "ISO8601"}},
                                   {{std::string(100'000, 'n'), true}}}) {
    const Status changed = ChangeLogSettings(wrong);
    ASSERT_FALSE(changed);
    EXPECT_EQ(changed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_LT(changed.error().message.size(), 500u);
    EXPECT_EQ(spdlog::get_level(), spdlog::level::info);
  }
}

TEST_F(Settings, OnlyOperatorsSetTheLog) {
  spdlog::set_level(spdlog::level::info);
  EXPECT_EQ(Json::parse(Ask(Get("/v2/logging")).body)["log_info"], true);
  const std::string request = Post("/v2/logging", R"({"log_info":false})");
  const auto refused = Ask(request);
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(ErrorOf(refused), HasSubstr("--allow-admin-on-http"));
  EXPECT_EQ(Json::parse(AskOperators(request).body)["log_info"], false);
  EXPECT_EQ(spdlog::get_level(), spdlog::level::warn);
  for (const char* body : {"", "[]", "{", R"({"log_info":1})", R"({"log_info":null})",
                           R"({"log_info":-1})", R"({"log_info":{}})", R"({"log_info":[true]})",
                           R"({"log_verbose_level":1.5})", R"({"log_verbose_level":1e99})",
                           R"({"log_info":true,"log_info":false})", R"({"log_file":"/x"})"}) {
    EXPECT_EQ(AskOperators(Post("/v2/logging", body)).status, 400) << body;
  }
  EXPECT_EQ(spdlog::get_level(), spdlog::level::warn);
}

TEST_F(Settings, TraceSettingsAreToldAndTakenBack) {
  const std::string path = "/v2/models/twice/trace/setting";
  const std::string told = Ask(Get(path)).body;
  EXPECT_EQ(Json::parse(told)["trace_level"], Json({"OFF"}));
  EXPECT_EQ(Ask(Get("/v2/trace/setting")).body, told);
  EXPECT_EQ(Ask(Post(path, told)).body, told);
  EXPECT_EQ(Ask(Post(path, R"({"trace_level":null,"trace_rate":"1"})")).status, 200);
  for (const char* body : {R"({"trace_level":["TIMESTAMPS"]})", R"({"trace_level":"TENSORS"})",
                           R"({"trace_file":"/etc/passwd"})"}) {
    const auto response = Ask(Post(path, body));
    EXPECT_EQ(response.status, 501) << body;
    EXPECT_THAT(ErrorOf(response), HasSubstr("--trace FILE")) << body;
  }
  for (const char* body : {"", "7", R"({"trace_level":1})", R"({"trace_level":[1]})",
                           R"({"trace_level":{}})", R"({"loud":"1"})"}) {
    EXPECT_EQ(Ask(Post(path, body)).status, 400) << body;
  }
  EXPECT_EQ(Ask(Get("/v2/models/nobody/trace/setting")).status, 404);
  EXPECT_EQ(ReadTraceSettings(true)["trace_level"].front(), "TIMESTAMPS");
}

}  // namespace
}  // namespace lagoon
