#include "server/oip_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "serving/config/model_config.pb.h"

namespace lagoon {
namespace {

TEST(OipJson, ServerListsWhatItServesAndNoMore) {
  const nlohmann::json json = nlohmann::json::parse(ServerMetadataJson({}));
  EXPECT_EQ(json["name"], "lagoon");
  EXPECT_FALSE(json["version"].get<std::string>().empty());
  EXPECT_EQ(json["extensions"], nlohmann::json({"binary_tensor_data", "classification", "logging",
                                                "model_configuration", "parameters",
                                                "schedule_policy", "sequence", "statistics"}));
  const auto more = nlohmann::json::parse(ServerMetadataJson({true, true}))["extensions"];
  EXPECT_EQ(more.size(), 10u);
  EXPECT_EQ(more.back(), "system_shared_memory");
}

TEST(OipJson, MetadataHasNamesTypesAndShapes) {
  const ModelMetadata model{"m",
                            {"1", "2"},
                            "lagoon_plan",
                            {{"x", DataType::kFloat32, {1, 3}}},
                            {{"y", DataType::kInt64, {}}}};
  const nlohmann::json json = nlohmann::json::parse(ModelMetadataJson(model));
  EXPECT_EQ(json["versions"], nlohmann::json({"1", "2"}));
  EXPECT_EQ(json["inputs"][0],
            nlohmann::json({{"name", "x"}, {"datatype", "FP32"}, {"shape", {1, 3}}}));
  EXPECT_EQ(json["outputs"][0]["shape"], nlohmann::json::array());
}

TEST(OipJson, StatisticsHaveEveryFieldThatClientsReadUnchecked) {
  ModelStatistics model;
  model.name = "m";
  model.version = "1";
  model.queue = {7, 8};
  model.batches = {{4, {1, 2}, {3, 4}, {5, 6}}};
  const nlohmann::json json = nlohmann::json::parse(StatisticsJson(std::vector{model}));
  const nlohmann::json& row = json["model_stats"][0];
  for (const char* stage : {"success", "fail", "queue", "compute_input", "compute_infer",
                            "compute_output", "cache_hit", "cache_miss"}) {
    EXPECT_TRUE(row["inference_stats"][stage]["count"].is_number()) << stage;
    EXPECT_TRUE(row["inference_stats"][stage]["ns"].is_number()) << stage;
  }
  EXPECT_EQ(row["inference_stats"]["queue"], nlohmann::json({{"count", 7}, {"ns", 8}}));
  EXPECT_TRUE(row["version"].is_string());
  const nlohmann::json one = {{"count", 3}, {"ns", 4}};
  ASSERT_EQ(row["batch_stats"].size(), 1u);
  EXPECT_EQ(row["batch_stats"][0]["batch_size"], 4);
  EXPECT_EQ(row["batch_stats"][0]["compute_infer"], one);
}

TEST(OipJson, ConfigHasIntegersAsNumbersAndNoAbsentMessages) {
  inference::ModelConfig config;
  config.set_name("m");
  auto* input = config.add_input();
  input->set_name("x");
  input->add_dims(1);
  input->add_dims(3000000000);
  const auto text = ModelConfigJson(config);
  ASSERT_TRUE(text);
  const nlohmann::json json = nlohmann::json::parse(*text);
  EXPECT_EQ(json["max_batch_size"], 0);
  EXPECT_EQ(json["input"][0]["dims"], nlohmann::json({1, 3000000000}));
  // The mere presence of these fields switches clients to another mode.
  for (const char* absent : {"dynamic_batching", "sequence_batching", "model_transaction_policy",
                             "response_cache", "ensemble_scheduling"}) {
    EXPECT_FALSE(json.contains(absent)) << absent;
  }
  config.mutable_dynamic_batching()->set_max_queue_delay_microseconds(12);
  config.mutable_dynamic_batching()->mutable_default_queue_policy()->set_max_queue_size(5);
  const nlohmann::json batching =
      nlohmann::json::parse(*ModelConfigJson(config))["dynamic_batching"];
  EXPECT_EQ(batching["max_queue_delay_microseconds"], 12);
  EXPECT_EQ(batching["default_queue_policy"]["max_queue_size"], 5);
}

}  // namespace
}  // namespace lagoon
