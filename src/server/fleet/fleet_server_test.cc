// /v2/fleet and /v2/repository of a server.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "base/folders.h"
#include "base/testing/test_folder.h"
#include "server/fleet/repository.h"
#include "server/testing/http_server_test_base.h"

namespace lagoon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class FleetServer : public HttpServer {
 protected:
  void Restart() {
    server_.reset();
    StartServer();
  }
  HttpTestResponse AskMetricsPort(std::string_view request) {
    HttpTestClient client(server_->metrics_port());
    EXPECT_TRUE(client.Send(request));
    return client.Receive();
  }
};

TEST(ForClients, AConfigOfTheClientThatCannotBeReadIsNoLoadThatFailed) {
  const auto words = [](const std::string& message) {
    return ForClients(true, "a", Fail(ErrorCode::kInvalidArgument, message)).error().message;
  };
  EXPECT_EQ(words("model 'a': the config: no JSON"),
            "failed to load 'a', failed to poll from model repository: model 'a': the config: no "
            "JSON");
  EXPECT_THAT(words("model 'b': the config: no JSON"), StartsWith("load failed for model 'a': "));
  EXPECT_THAT(words("no op 'X'"), StartsWith("load failed for model 'a': "));
}

TEST_F(FleetServer, TellsDevicesAndReplicasOnBothPorts) {
  core_.BecomeFleet();
  for (const std::string& body :
       {Ask(Get("/v2/fleet")).body, AskMetricsPort(Get("/v2/fleet")).body}) {
    const Json fleet = Json::parse(body);
    EXPECT_EQ(fleet["placer"], "static");
    EXPECT_EQ(fleet["devices"].size(), 2u);
    EXPECT_EQ(fleet["devices"][1]["ready"], false);
    EXPECT_EQ(fleet["models"][0]["rows_per_s"], 12.5);
    EXPECT_TRUE(fleet["models"][0]["slo_ms"].is_null());
    EXPECT_EQ(fleet["models"][0]["standalone_ms"], 3);
    EXPECT_EQ(fleet["replicas"][0]["device"], "1/cpu:1");
    EXPECT_EQ(fleet["replicas"][0]["state"], "retiring");
    EXPECT_EQ(fleet["loads"], 3);
    EXPECT_TRUE(fleet["last_decision"].is_null());
  }
  EXPECT_EQ(Ask(Post("/v2/fleet", "{}")).status, 405);
}

TEST_F(FleetServer, SetsThePlacerOnTheMetricsPortOnly) {
  core_.BecomeFleet();
  const std::string other = Post("/v2/fleet/placer", R"({"placer":"other"})");
  EXPECT_EQ(Ask(other).status, 403);
  const auto set = AskMetricsPort(other);
  EXPECT_EQ(set.status, 200);
  EXPECT_EQ(Json::parse(set.body)["placer"], "other");
  const auto unknown = AskMetricsPort(Post("/v2/fleet/placer", R"({"placer":"best"})"));
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(ErrorOf(unknown), HasSubstr("'best'"));
  for (const char* body : {"", "{}", "[]", "nonsense", R"({"placer":1})", R"({"name":"other"})",
                           R"({"placer":"other","more":1})"}) {
    EXPECT_EQ(AskMetricsPort(Post("/v2/fleet/placer", body)).status, 400) << body;
  }
  EXPECT_EQ(AskMetricsPort(Get("/v2/fleet/placer")).status, 405);
}

TEST_F(FleetServer, ServersJoinAndLeaveOnTheMetricsPortOnly) {
  core_.BecomeFleet();
  const std::string join =
      Post("/v2/fleet/members", R"({"name":"a","address":"h:1","memory_bytes":5})");
  EXPECT_EQ(Ask(join).status, 403);
  const auto joined = AskMetricsPort(join);
  ASSERT_EQ(joined.status, 200) << joined.body;
  const Json device = Json::parse(joined.body)["devices"][2];
  EXPECT_EQ(device["name"], "a");
  EXPECT_EQ(device["address"], "h:1");
  EXPECT_EQ(device["memory_bytes"], 5);
  EXPECT_EQ(device["problem"], "");
  for (const char* body : {"[]", R"({"name":1})", R"({"name":"a","more":1})",
                           R"({"name":"a","address":"h:1","memory_bytes":-1})",
                           R"({"name":"a","address":"h:1","memory_bytes":1e300})"}) {
    EXPECT_EQ(AskMetricsPort(Post("/v2/fleet/members", body)).status, 400) << body;
  }
  const std::string leave = Post("/v2/fleet/leave", R"({"name":"a"})");
  EXPECT_EQ(Ask(leave).status, 403);
  EXPECT_EQ(Json::parse(AskMetricsPort(leave).body)["devices"].size(), 2U);
  EXPECT_EQ(AskMetricsPort(leave).status, 404);
  EXPECT_EQ(AskMetricsPort(Post("/v2/fleet/leave", "{}")).status, 400);
}

TEST_F(FleetServer, AFleetThatIsNotReadySaysWhy) {
  core_.SetReady(false);
  EXPECT_THAT(ErrorOf(Ask(Get("/v2/health/ready"))), HasSubstr("loading models or draining"));
  core_.BecomeFleet();
  EXPECT_THAT(ErrorOf(Ask(Get("/v2/health/ready"))), HasSubstr("GET /v2/fleet says why"));
  for (const char* name : {"0/cpu:1", "1/cpu:1"}) {
    AskMetricsPort(Post("/v2/fleet/leave", fmt::format(R"({{"name":"{}"}})", name)));
  }
  EXPECT_THAT(ErrorOf(Ask(Get("/v2/health/ready"))),
              HasSubstr("its fleet has no members; POST /v2/fleet/members adds one"));
}

TEST_F(FleetServer, AFleetsModelsAreNotLoadedByClients) {
  const std::string load = Post("/v2/repository/models/twice/load", "{}");
  EXPECT_THAT(ErrorOf(Ask(load)), HasSubstr("--model-control explicit"));
  core_.BecomeFleet();
  const auto refused = Ask(load);
  EXPECT_EQ(refused.status, 501);
  EXPECT_THAT(ErrorOf(refused), HasSubstr("the placer of this server's fleet"));
  EXPECT_THAT(ErrorOf(refused), Not(HasSubstr("--model-control")));
}

TEST_F(FleetServer, AServerOfOneDeviceHasNoFleet) {
  EXPECT_EQ(Ask(Get("/v2/fleet")).status, 501);
  EXPECT_EQ(AskMetricsPort(Post("/v2/fleet/placer", R"({"placer":"other"})")).status, 501);
  EXPECT_EQ(AskMetricsPort(Post("/v2/fleet/leave", R"({"name":"a"})")).status, 501);
  EXPECT_EQ(AskMetricsPort(Post("/v2/fleet/members", R"({"name":"a","address":"h:1"})")).status,
            501);
  EXPECT_THAT(AskMetricsPort(Get("/metrics")).body, Not(HasSubstr("lagoon_fleet")));
}

TEST_F(FleetServer, SaysWhatACoreWithoutFacetsLacks) {
  core_.BecomeBare();
  model_control_ = admin_on_http_ = true;
  Restart();
  const auto expect = [&](const std::string& request, std::string_view why) {
    const HttpTestResponse answer = AskMetricsPort(request);
    EXPECT_EQ(answer.status, 501) << request;
    EXPECT_THAT(ErrorOf(answer), HasSubstr(std::string(why)));
  };
  const char* const scheduler = "the scheduler of the members' devices can be seen and changed at";
  expect(Get("/v2/scheduler"), scheduler);
  expect(Post("/v2/scheduler", R"({"scheduler":"reef"})"), scheduler);
  const char* const shares = "shares of the members' devices can be seen and changed at";
  expect(Get("/v2/shares"), shares);
  expect(Post("/v2/shares", R"({"tuning":false})"), shares);
  expect(Post("/v2/models/twice/resize", R"({"units":1})"), shares);
  expect(Get("/v2/fleet"), "the server serves one device");
  expect(Post("/v2/fleet/placer", R"({"placer":"other"})"), "no use for placer 'other'");
  EXPECT_EQ(AskMetricsPort(Post("/v2/scheduler", R"({"scheduler":"none"})")).status, 404);
  for (const std::string change : {"load", "unload"}) {
    const auto answer = Ask(Post("/v2/repository/models/twice/" + change, "{}"));
    EXPECT_EQ(answer.status, 501);
    EXPECT_EQ(ErrorOf(answer),
              "model 'twice' cannot be " + change + "ed: the set of models is fixed");
  }
  EXPECT_THAT(AskMetricsPort(Get("/metrics")).body, HasSubstr("lagoon_launches_total 0"));
}

TEST_F(FleetServer, MetricsNameDeviceAndReplica) {
  core_.BecomeFleet();
  const std::string metrics = AskMetricsPort(Get("/metrics")).body;
  EXPECT_THAT(metrics, HasSubstr(R"(lagoon_fleet_device_ready{device="0/cpu:1"} 1)"));
  EXPECT_THAT(metrics, HasSubstr(R"(lagoon_fleet_device_ready{device="1/cpu:1"} 0)"));
  EXPECT_THAT(
      metrics,
      HasSubstr(R"(lagoon_fleet_replica_requests_total{model="twice",device="1/cpu:1"} 7)"));
  EXPECT_THAT(metrics, HasSubstr("lagoon_fleet_loads_total 3"));
}

TEST_F(FleetServer, ModelsAreLoadedAndUnloadedIfTheServerAllowsIt) {
  const std::string load = Post("/v2/repository/models/twice/load", "{}");
  EXPECT_EQ(Ask(load).status, 501);
  EXPECT_THAT(ErrorOf(Ask(load)), HasSubstr("--model-control"));
  EXPECT_THAT(core_.Changes(), ElementsAre());
  model_control_ = true;
  Restart();
  EXPECT_EQ(Ask(load).status, 403);
  EXPECT_THAT(ErrorOf(Ask(load)), HasSubstr("--allow-admin-on-http"));
  EXPECT_EQ(Ask(Post("/v2/repository/models/twice/unload", "{}")).status, 403);
  EXPECT_THAT(core_.Changes(), ElementsAre());
  EXPECT_EQ(AskMetricsPort(Post("/v2/repository/models/spare/load", "{}")).status, 200);
  EXPECT_EQ(AskMetricsPort(Post("/v2/repository/models/spare/unload", "{}")).status, 200);
  EXPECT_THAT(core_.Changes(), ElementsAre("load spare", "unload spare"));
  admin_on_http_ = true;
  Restart();
  EXPECT_EQ(Ask(load).status, 200);
  EXPECT_EQ(Ask(Post("/v2/repository/models/twice/unload",
                     R"({"parameters":{"unload_dependents":false}})"))
                .status,
            200);
  EXPECT_THAT(core_.Changes(),
              ElementsAre("load spare", "unload spare", "load twice", "unload twice"));
  const auto absent = Ask(Post("/v2/repository/models/absent/load", ""));
  EXPECT_EQ(absent.status, 404);
  EXPECT_THAT(ErrorOf(absent),
              StartsWith("failed to load 'absent', failed to poll from model repository"));
  EXPECT_EQ(Ask(Post("/v2/repository/models/absent/unload", "")).status, 200);
  const auto broken = Ask(Post("/v2/repository/models/broken/load", ""));
  EXPECT_EQ(broken.status, 400);
  EXPECT_EQ(ErrorOf(broken), "load failed for model 'broken': config.pbtxt:3: nonsense");
  EXPECT_EQ(Ask(Get("/v2/repository/models/twice/load")).status, 405);
  for (const char* body : {"nonsense", "[]", "1"}) {
    EXPECT_EQ(Ask(Post("/v2/repository/models/twice/load", body)).status, 400) << body;
  }
  EXPECT_EQ(
      Ask(Post("/v2/repository/models/twice/load", R"({"parameters":{"reload":true}})")).status,
      501);
  EXPECT_THAT(Ask(Get("/v2")).body, HasSubstr("model_repository"));
}

TEST_F(FleetServer, ALoadMayBringAConfigAndFiles) {
  model_control_ = admin_on_http_ = true;
  Restart();
  EXPECT_EQ(Ask(Post("/v2/repository/models/twice/load",
                     R"({"parameters":{"config":"{}","file:1/m":"TWFu"}})"))
                .status,
            200);
  const std::string large(100'000, '7');  // read on the lane
  EXPECT_EQ(Ask(Post("/v2/repository/models/twice/load",
                     R"({"parameters":{"config":")" + large + R"("}})"))
                .status,
            200);
  EXPECT_THAT(core_.Changes(), ElementsAre("load {} 1/m=Man twice", "load " + large + " twice"));
  const auto wrong = Ask(
      Post("/v2/repository/models/twice/load", R"({"parameters":{"config":"{}","file:1/m":"?"}})"));
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(ErrorOf(wrong), HasSubstr("'file:1/m': is not base64"));
  EXPECT_EQ(Ask(Post("/v2/repository/models/twice/unload",
                     R"({"parameters":{"config":")" + large + R"("}})"))
                .status,
            413);
}

TEST_F(FleetServer, TheIndexListsModelsAndSaysWhyOneIsNotServed) {
  const auto all = Ask(Post("/v2/repository/index", ""));
  EXPECT_EQ(all.status, 200);
  const Json rows = Json::parse(all.body);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["state"], "READY");
  EXPECT_FALSE(rows[0].contains("reason"));
  EXPECT_EQ(rows[1]["state"], "UNAVAILABLE");
  EXPECT_EQ(rows[1]["reason"], "config.pbtxt:3: node '/model/Add': nonsense");
  EXPECT_EQ(rows[2]["reason"], "unloaded");
  EXPECT_EQ(Json::parse(Ask(Post("/v2/repository/index", R"({"ready":true})")).body).size(), 1u);
  EXPECT_EQ(Ask(Post("/v2/repository/index", R"({"ready":1})")).status, 400);
}

TEST_F(FleetServer, ReadinessAndMetricsTellOfARefusedModelIfWanted) {
  const std::string_view ready = "/v2/health/ready";
  EXPECT_EQ(Ask(Get(ready)).status, 200);
  EXPECT_THAT(
      AskMetricsPort(Get("/metrics")).body,
      AllOf(HasSubstr(R"(lagoon_model_not_served{model="broken",version="",reason="refused"} 1)"),
            HasSubstr(R"(lagoon_model_not_served{model="spare",version="",reason="unloaded"} 1)"),
            Not(HasSubstr(R"(not_served{model="twice")"))));
  strict_readiness_ = true;
  Restart();
  EXPECT_EQ(Ask(Get(ready)).status, 503);
  EXPECT_THAT(ErrorOf(Ask(Get(ready))), HasSubstr("a model failed to load"));
}

TEST(Repository, FoldersOfTheServerAreCutAndNamesInModelsAreNot) {
  EXPECT_EQ(WithoutFolders("'/tmp/a/b/model.onnx': node '/layer/0/Add' (/usr/lib/x.so)"),
            "'model.onnx': node '/layer/0/Add' (x.so)");
  EXPECT_EQ(WithoutFolders("a/b, / and //x /tmp"), "a/b, / and //x /tmp");
  EXPECT_EQ(WithoutFolders("/usr/secret/"), "");
  const TestFolder folder;
  const std::filesystem::path spaced = folder.path() / "my models: a";
  std::filesystem::create_directories(spaced / "1");
  EXPECT_EQ(WithoutFolders((spaced / "1" / "model.onnx").string() + ": x"), "model.onnx: x");
  EXPECT_EQ(WithoutFolders((spaced / "2" / "model.onnx").string() + ": x"), "model.onnx: x");
  EXPECT_EQ(WithoutFolders(""), "");
}

}  // namespace
}  // namespace lagoon
