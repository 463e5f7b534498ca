#include "server/shares/share_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lagoon {
namespace {

using std::chrono::seconds;

TEST(ShareJson, TellsEachModelsShareAndLoad) {
  SharesReport report{.trigger = 0.05, .hold_down = seconds(10), .units = 8, .models = {}};
  ModelShare& model = report.models.emplace_back();
  model.model = "bert";
  model.version = "1";
  model.share = 0.25;
  model.demand_from = DemandFrom::kSurface;
  model.units = {2, 2};
  model.ceiling = 6;
  model.load.arrivals_per_s = 12.5;
  model.load.bottleneck = Bottleneck::kHost;
  model.last = ShareChange{.from = 0.5, .to = 0.25, .why = "because", .at = TimePoint(seconds(1))};
  report.models.emplace_back().model = "free";
  const auto json = nlohmann::json::parse(SharesJson(report, TimePoint(seconds(3))));
  EXPECT_EQ(json["shares"], "units");
  EXPECT_EQ(json["trigger_percent"], 5);
  EXPECT_EQ(json["hold_down_s"], 10);
  const auto& bert = json["models"][0];
  EXPECT_EQ(bert["share_percent"], 25);
  EXPECT_EQ(bert["demand_from"], "surface");
  EXPECT_EQ(bert["units"]["first"], 2);
  EXPECT_EQ(bert["arrivals_per_s"], 12.5);
  EXPECT_TRUE(bert["batch_ms"].is_null()) << "not known";
  EXPECT_EQ(bert["batch_rows_ceiling"], 6);
  EXPECT_TRUE(json["models"][1]["batch_rows_ceiling"].is_null());
  EXPECT_EQ(bert["bottleneck"], "host");
  EXPECT_EQ(bert["last_change"]["why"], "because");
  EXPECT_EQ(bert["last_change"]["seconds_ago"], 2);
  EXPECT_TRUE(json["models"][1]["share_percent"].is_null());
  EXPECT_TRUE(json["models"][1]["demand_from"].is_null());
}

TEST(ShareJson, ReadsRulesAndSizes) {
  const auto rules = ParseSharesJson(R"({"tuning": false, "hold_down_s": 2.5})");
  ASSERT_TRUE(rules) << rules.error().message;
  EXPECT_EQ(rules->tuning, false);
  EXPECT_EQ(rules->hold_down, std::chrono::milliseconds(2500));
  EXPECT_FALSE(rules->trigger);
  EXPECT_EQ(ParseResizeJson(R"({"units": 3})")->units, 3u);
  EXPECT_EQ(ParseResizeJson(R"({"percent": 12.5})")->part, 0.125);
  EXPECT_TRUE(ParseResizeJson(R"({"share": "auto"})")->automatic);
  EXPECT_FALSE(ParseResizeJson(R"({"share": "auto"})")->none);
  EXPECT_TRUE(ParseResizeJson(R"({"share": "none"})")->none);
  EXPECT_EQ(ParseResizeJson(R"({"share": "none"})")->rows, 0);
  EXPECT_EQ(ParseResizeJson(R"({"percent": 5, "rows": 4})")->rows, 4);
}

TEST(ShareJson, HostileBodiesAreRefusedByName) {
  for (const char* body :
       {"", "{}", "[]", "1", "{\"tuning\": 1}", "{\"trigger_percent\": 101}",
        "{\"trigger_percent\": -1}", "{\"hold_down_s\": \"2\"}", "{\"hold_down_s\": 1e300}",
        "{\"tunnig\": true}", "{\"tuning\": {}}", "{\"tuning\": true", "nonsense"}) {
    const auto parsed = ParseSharesJson(body);
    ASSERT_FALSE(parsed) << body;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument) << body;
  }
  for (const char* body :
       {"", "{}", "{\"units\": 0}", "{\"units\": 1.5}", "{\"units\": -1}", "{\"units\": 1e99}",
        "{\"units\": null}", "{\"percent\": 0}", "{\"percent\": 100.1}", "{\"percent\": \"5\"}",
        "{\"rows\": 4}", "{\"percent\": 5, \"rows\": 0}", "{\"share\": \"fixed\"}",
        "{\"units\": 1, \"percent\": 5}", "{\"size\": 1}"}) {
    const auto parsed = ParseResizeJson(body);
    ASSERT_FALSE(parsed) << body;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument) << body;
  }
  EXPECT_NE(ParseResizeJson(R"({"units": 1.5})").error().message.find("'units' is '1.5'"),
            std::string::npos)
      << ParseResizeJson(R"({"units": 1.5})").error().message;
}

TEST(ShareJson, AReportIsReadBack) {
  SharesReport report{.kind = ShareKind::kWeight,
                      .tuning = false,
                      .trigger = 0.05,
                      .hold_down = std::chrono::milliseconds(2500),
                      .units = 8,
                      .granule = 2,
                      .models = {}};
  ModelShare& model = report.models.emplace_back();
  model.model = "bert";
  model.version = "7";
  model.share = 0.3;
  model.fixed = true;
  model.demand = 0.6;
  model.demand_from = DemandFrom::kLoad;
  model.weight = 2;
  model.most_rows = 16;
  model.ceiling = 6;
  model.load = {.arrivals_per_s = 12.5,
                .batch_ms = 4,
                .request_p95_ms = 9,
                .rows_per_s = 1e6,
                .bottleneck = Bottleneck::kDevice};
  model.moves = 3;
  model.last = ShareChange{.from = 0.5, .to = 0.25, .why = "because", .at = {}};
  model.surface = std::make_shared<const Surface>(
      Surface::FromPoints({.rows = {1, 4}, .shares = {0.5, 1}, .latency_ms = {{16, 8}, {44, 22}}})
          .value());
  ModelShare& free = report.models.emplace_back();
  free.model = "free";
  free.version = "1";
  const std::string text = SharesJson(report, {});
  const auto read = ParseSharesReport(text);
  ASSERT_TRUE(read) << read.error().message;
  report.models[0].last.reset();  // the one thing of these that is not read
  EXPECT_EQ(SharesJson(*read, {}), SharesJson(report, {}));
  EXPECT_FALSE(read->models[1].share);
  ASSERT_NE(read->models[0].surface, nullptr);
  EXPECT_EQ(read->models[0].surface->LatencyMs(4, 1), 22);
  EXPECT_EQ(read->models[1].surface, nullptr);
  const auto again = ParseSharesReport(text, *read);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->models[0].surface, read->models[0].surface) << "not made again";
  SharesReport other = *read;
  other.models[0].surface =
      std::make_shared<const Surface>(Surface::FromFormula({.base_ms = 2, .row_ms = 1}).value());
  const auto changed = ParseSharesReport(text, other);
  EXPECT_EQ(changed->models[0].surface->LatencyMs(4, 1), 22);
  EXPECT_EQ(ParseSharesReport(SharesJson(other, {}))->models[0].surface->LatencyMs(4, 1), 6);
}

TEST(ShareJson, NonsenseOfAServerIsRefusedByName) {
  SharesReport report;
  ModelShare& model = report.models.emplace_back();
  model.model = "m";
  model.version = "1";
  model.share = 0.5;
  const auto good = nlohmann::json::parse(SharesJson(report, {}));
  const auto refusal = [](const nlohmann::json& json) {
    const auto read = ParseSharesReport(json.dump());
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(refusal(good), "");
  const auto with = [&](const char* field, const nlohmann::json& value) {
    auto json = good;
    (json.contains(field) ? json : json["models"][0])[field] = value;
    return refusal(json);
  };
  for (const auto& [field, value] :
       std::initializer_list<std::pair<const char*, nlohmann::json>>{{"shares", "parts"},
                                                                     {"shares", nullptr},
                                                                     {"granule", 0},
                                                                     {"units", -1},
                                                                     {"hold_down_s", -1},
                                                                     {"models", 3},
                                                                     {"share_percent", 101},
                                                                     {"share_percent", -0.1},
                                                                     {"share_percent", "all"},
                                                                     {"fixed", 1},
                                                                     {"batch_ms", -4},
                                                                     {"arrivals_per_s", 1e300},
                                                                     {"bottleneck", "nothing"},
                                                                     {"batch_rows_limit", 1.5},
                                                                     {"batch_rows_ceiling", -2},
                                                                     {"surface", 7},
                                                                     {"surface", {{"points", 3}}},
                                                                     {"demand_from", "hope"},
                                                                     {"weight", nullptr},
                                                                     {"moves", -1}}) {
    EXPECT_NE(with(field, value).find(field), std::string::npos)
        << field << value << with(field, value);
  }
  auto odd = good;
  odd["models"][0]["fixed"] = true;
  odd["models"][0]["share_percent"] = nullptr;
  EXPECT_NE(refusal(odd).find("without a 'share_percent'"), std::string::npos);
  EXPECT_NE(with("model", "../m").find("no model can have the name '../m'"), std::string::npos);
  EXPECT_NE(with("version", "new").find("no model can have"), std::string::npos);
  auto many = good;
  for (std::size_t i = 0; i < kMostTold; ++i) many["models"].push_back(good["models"][0]);
  EXPECT_NE(refusal(many).find("more than 4096 models"), std::string::npos) << refusal(many);
  auto less = good;
  less["models"][0].erase("fixed");
  EXPECT_NE(refusal(less).find("fixed"), std::string::npos);
  EXPECT_FALSE(ParseSharesReport("nonsense"));
}

TEST(ShareJson, AResizeIsReadBack) {
  for (const ShareWanted& wanted :
       {ShareWanted{.part = 0.3, .rows = 4}, ShareWanted{.units = 3}, ShareWanted{.none = true},
        ShareWanted{.automatic = true, .rows = 7}, ShareWanted{.part = 1.0 / 3}}) {
    const std::string text = ResizeJson(wanted);
    const auto read = ParseResizeJson(text);
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(read->units, wanted.units);
    EXPECT_NEAR(read->part.value_or(0), wanted.part.value_or(0), 1e-15);
    EXPECT_EQ(read->automatic, wanted.automatic);
    EXPECT_EQ(read->none, wanted.none);
    EXPECT_EQ(read->rows, wanted.rows);
  }
}

}  // namespace
}  // namespace lagoon
