#include "server/route.h"

#include <gtest/gtest.h>

namespace lagoon {
namespace {

using Kind = Route::Kind;

TEST(Route, KnowsEveryPathOfTheProtocol) {
  const struct {
    const char* target;
    Kind kind;
    const char* model;
    const char* version;
  } cases[] = {
      {"/v2", Kind::kServer, "", ""},
      {"/v2/", Kind::kServer, "", ""},
      {"/v2/health/live", Kind::kLive, "", ""},
      {"/v2/health/ready", Kind::kReady, "", ""},
      {"/v2/models/stats", Kind::kStatistics, "", ""},
      {"/v2/scheduler", Kind::kScheduler, "", ""},
      {"/v2/schedulers", Kind::kSchedulers, "", ""},
      {"/v2/fleet", Kind::kFleet, "", ""},
      {"/v2/fleet/placer", Kind::kFleetPlacer, "", ""},
      {"/v2/repository/index", Kind::kRepositoryIndex, "", ""},
      {"/v2/repository/models/digits/load", Kind::kRepositoryLoad, "digits", ""},
      {"/v2/repository/models/a%2Fb/unload", Kind::kRepositoryUnload, "a/b", ""},
      {"/v2/models/digits", Kind::kModel, "digits", ""},
      {"/v2/models/digits/versions/3", Kind::kModel, "digits", "3"},
      {"/v2/models/digits/ready", Kind::kModelReady, "digits", ""},
      {"/v2/models/digits/versions/3/ready", Kind::kModelReady, "digits", "3"},
      {"/v2/models/digits/config", Kind::kModelConfig, "digits", ""},
      {"/v2/models/digits/stats", Kind::kModelStatistics, "digits", ""},
      {"/v2/models/digits/infer?x=/v2", Kind::kModelInfer, "digits", ""},
      {"/v2/models/digits/versions/1/infer", Kind::kModelInfer, "digits", "1"},
      {"/v2/models/stats/stats", Kind::kModelStatistics, "stats", ""},
      {"/v2/models/my%20model%2f1/infer", Kind::kModelInfer, "my model/1", ""},
      {"/v2/models/stats/versions/2", Kind::kModel, "stats", "2"},
      {"/v2/models/versions/versions/2/stats", Kind::kModelStatistics, "versions", "2"},
      {"/v2/repository/models/versions/load", Kind::kRepositoryLoad, "versions", ""},
      {"/v2/models/digits/versions/1/resize", Kind::kModelResize, "digits", "1"},
      {"/v2/fleet/members?x", Kind::kFleetMembers, "", ""},
      {"/v2/fleet/leave", Kind::kFleetLeave, "", ""},
      {"/metrics", Kind::kMetrics, "", ""},
  };
  for (const auto& c : cases) {
    const Route route = ParseRoute(c.target);
    EXPECT_EQ(route.kind, c.kind) << c.target;
    EXPECT_EQ(route.model, c.model) << c.target;
    EXPECT_EQ(route.version, c.version) << c.target;
  }
}

TEST(Route, EveryEndpointIsFoundByItsPath) {
  for (const Endpoint& endpoint : kEndpoints) {
    std::string path(endpoint.path);
    const std::size_t at = path.find('{');
    if (at != path.npos) path.replace(at, path.find('}') + 1 - at, "m");
    const Route route = ParseRoute(path);
    EXPECT_EQ(route.kind, endpoint.kind) << path;
    EXPECT_EQ(route.model, at == path.npos ? "" : "m") << path;
    // A kind may have two paths, as all regions and one.
    const Endpoint* const found = FindEndpoint(route.kind);
    ASSERT_NE(found, nullptr) << path;
    EXPECT_EQ(found->methods, endpoint.methods) << path;
    EXPECT_EQ(found->change, endpoint.change) << path;
    EXPECT_FALSE(endpoint.answer.empty()) << path;
  }
  EXPECT_EQ(FindEndpoint(Kind::kUnknown), nullptr);
}

TEST(Route, RefusesEverythingElse) {
  for (const char* target : {"",
                             "/",
                             "v2",
                             "/v1",
                             "*",
                             "/v2/health",
                             "/v2/health/dead",
                             "/v2/models",
                             "/v2//models/a",
                             "/v2/models/a/versions",
                             "/v2/models/a/infer/b",
                             "/v2/models/a/versions/1/2/3",
                             "/v2/models/%zz",
                             "/v2/models/%4",
                             "/v2/models/a/explode",
                             "/v2/trace2",
                             "/v2/generate",
                             "/v2/models/a/b/c/d/e/f/g/h/i/j",
                             "/metrics/a",
                             "/v2/metrics",
                             "/v2/fleet/routes",
                             "/v2/models/versions/1",
                             "/v2/health/versions/1",
                             "/v2/models/digits/infer/",
                             "/v2/health/live/",
                             "/v2/repository/models/digits/move",
                             "/v2/repository/models/a/b/load",
                             "/v2/repository/models/digits/versions/1/load",
                             "http://host/v2"}) {
    EXPECT_EQ(ParseRoute(target).kind, Kind::kUnknown) << target;
  }
}

TEST(Route, KnowsRegionsOfSharedMemory) {
  EXPECT_EQ(ParseRoute("/v2/systemsharedmemory/status").kind, Kind::kRegionStatus);
  const Route one = ParseRoute("/v2/systemsharedmemory/region/a%20b/register");
  EXPECT_EQ(one.kind, Kind::kRegionRegister);
  EXPECT_EQ(one.model, "a b");
  EXPECT_EQ(ParseRoute("/v2/systemsharedmemory/unregister").kind, Kind::kRegionUnregister);
  EXPECT_TRUE(ParseRoute("/v2/systemsharedmemory/unregister").model.empty());
  EXPECT_EQ(ParseRoute("/v2/cudasharedmemory/region/r/unregister").kind,
            Kind::kCudaRegionUnregister);
  EXPECT_EQ(ParseRoute("/v2/systemsharedmemory/region/r/move").kind, Kind::kUnknown);
  EXPECT_EQ(ParseRoute("/v2/systemsharedmemory/versions/1/status").kind, Kind::kUnknown);
}

TEST(Route, WordsOfPathsMayBeNamesOfModels) {
  EXPECT_EQ(ParseRoute("/v2/models/trace").kind, Kind::kModel);
  EXPECT_EQ(ParseRoute("/v2/models/repository/infer").kind, Kind::kModelInfer);
}

}  // namespace
}  // namespace lagoon
