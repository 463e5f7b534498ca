#include <gmock/gmock.h>

#include "server/testing/http_server_test_base.h"
#include "server/testing/shared_object.h"

namespace lagoon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class RegionServer : public HttpServer {
 protected:
  HttpTestResponse Register(std::string_view name, std::string_view key, std::size_t bytes) {
    return Ask(Post(fmt::format("/v2/systemsharedmemory/region/{}/register", name),
                    fmt::format(R"({{"key":"{}","offset":0,"byte_size":{}}})", key, bytes)));
  }
  HttpTestResponse InferShared(std::size_t in_bytes, std::size_t out_bytes) {
    return Ask(Post(
        "/v2/models/twice/infer",
        fmt::format(R"({{"inputs":[{{"name":"x","datatype":"FP32","shape":[1,4],"parameters":{{)"
                    R"("shared_memory_region":"r","shared_memory_byte_size":{}}}}}],)"
                    R"("outputs":[{{"name":"y","parameters":{{"shared_memory_region":"r",)"
                    R"("shared_memory_offset":64,"shared_memory_byte_size":{}}}}}]}})",
                    in_bytes, out_bytes)));
  }
};

TEST_F(RegionServer, InfersFromSharedMemoryIntoSharedMemory) {
  SharedObject object(4096);
  object.Write(0, {1, 2, 3, 4});
  ASSERT_EQ(Register("r", object.key(), 4096).status, 200);
  const auto response = InferShared(16, 1000);
  ASSERT_EQ(response.status, 200) << response.body;
  const Json output = Json::parse(response.body)["outputs"][0];
  EXPECT_FALSE(output.contains("data"));
  EXPECT_EQ(output["shape"], Json({1, 4}));
  EXPECT_EQ(output["parameters"], Json({{"shared_memory_region", "r"},
                                        {"shared_memory_byte_size", 16},
                                        {"shared_memory_offset", 64}}));
  EXPECT_THAT(object.Read(64, 4), ElementsAre(2, 4, 6, 8));
}

TEST_F(RegionServer, LargeTensorsAreCopiedBesideTheConnections) {
  const std::size_t count = 600'000;  // 2.4 MB
  SharedObject object(2 * count * sizeof(float));
  object.Write(0, std::vector<float>(count, 1.5F));
  ASSERT_EQ(Register("r", object.key(), 2 * count * sizeof(float)).status, 200);
  const auto response = Ask(
      Post("/v2/models/vector/infer",
           fmt::format(R"({{"inputs":[{{"name":"x","datatype":"FP32","shape":[{0}],"parameters":{{)"
                       R"("shared_memory_region":"r","shared_memory_byte_size":{1}}}}}],)"
                       R"("outputs":[{{"name":"y","parameters":{{"shared_memory_region":"r",)"
                       R"("shared_memory_offset":{1},"shared_memory_byte_size":{1}}}}}]}})",
                       count, count * sizeof(float))));
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(object.Read(count * sizeof(float), count), std::vector<float>(count, 3));
}

TEST_F(RegionServer, StatusListsRegionsUntilTheyAreUnregistered) {
  EXPECT_EQ(Ask(Get("/v2/systemsharedmemory/status")).body, "[]");
  EXPECT_EQ(Ask(Post("/v2/systemsharedmemory/unregister", "")).status, 200);
  const SharedObject object(64);
  ASSERT_EQ(Register("r", object.key(), 64).status, 200);
  ASSERT_EQ(Register("s", object.key(), 32).status, 200);
  EXPECT_EQ(Register("r", object.key(), 64).status, 409);
  EXPECT_EQ(Json::parse(Ask(Get("/v2/systemsharedmemory/region/s/status")).body),
            Json({{{"name", "s"}, {"key", object.key()}, {"offset", 0}, {"byte_size", 32}}}));
  EXPECT_EQ(Ask(Get("/v2/systemsharedmemory/region/t/status")).status, 404);
  EXPECT_EQ(Ask(Post("/v2/systemsharedmemory/region/s/unregister", "")).status, 200);
  EXPECT_EQ(Json::parse(Ask(Get("/v2/systemsharedmemory/status")).body).size(), 1u);
  EXPECT_EQ(Ask(Post("/v2/systemsharedmemory/unregister", "")).status, 200);
  EXPECT_EQ(Ask(Get("/v2/systemsharedmemory/status")).body, "[]");
}

TEST_F(RegionServer, RefusesWhatItCannotRead) {
  SharedObject object(4096);
  ASSERT_EQ(Register("r", object.key(), 4096).status, 200);
  EXPECT_EQ(InferShared(15, 16).status, 400);
  EXPECT_THAT(ErrorOf(InferShared(15, 16)), HasSubstr("got unexpected byte size 15, expected 16"));
  EXPECT_EQ(InferShared(16, 15).status, 400);
  EXPECT_THAT(ErrorOf(InferShared(16, 15)), HasSubstr("should be at least 16 bytes"));
  object.Resize(8);
  EXPECT_EQ(InferShared(16, 16).status, 400);
  EXPECT_THAT(ErrorOf(InferShared(16, 16)), HasSubstr("smaller"));
  Ask(Post("/v2/systemsharedmemory/unregister", ""));
  EXPECT_EQ(InferShared(16, 16).status, 404);
  EXPECT_THAT(ErrorOf(InferShared(16, 16)), HasSubstr("Unable to find shared memory region: 'r'"));
  for (const char* body :
       {"", "[]", "{}", R"({"key":1,"byte_size":1})", R"({"key":"secret"})",
        R"({"key":"secret","byte_size":-1})", R"({"key":"secret","byte_size":1,"byte_size":1})",
        R"({"key":"secret","byte_size":1,"offset":1e99})",
        R"({"key":"secret\u0000x","byte_size":1})", R"({"key":"secret","byte_size":1)"}) {
    const auto response = Ask(Post("/v2/systemsharedmemory/region/q/register", body));
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_THAT(ErrorOf(response), Not(HasSubstr("secret"))) << body;
  }
  EXPECT_EQ(Ask(Post("/v2/systemsharedmemory/region/q/register", R"({"key":"k","byte_size":1})",
                     "Origin: https://evil.example\r\n"))
                .status,
            403);
}

TEST_F(RegionServer, UnregisteringDoesNotDisturbRequestsInFlight) {
  SharedObject object(4096);
  object.Write(0, {1, 2, 3, 4});
  ASSERT_EQ(Register("r", object.key(), 4096).status, 200);
  core_.Hold();
  HttpTestResponse response;
  std::jthread client([&] { response = InferShared(16, 16); });
  ASSERT_TRUE(Eventually([&] { return core_.Pending() == 1; }));
  EXPECT_EQ(Ask(Post("/v2/systemsharedmemory/unregister", "")).status, 200);
  core_.Release();
  client.join();
  EXPECT_EQ(response.status, 200) << response.body;
  EXPECT_THAT(object.Read(64, 4), ElementsAre(2, 4, 6, 8));
}

TEST_F(RegionServer, HasNoRegionsOfGpus) {
  EXPECT_EQ(Ask(Get("/v2/cudasharedmemory/status")).body, "[]");
  EXPECT_EQ(Ask(Get("/v2/cudasharedmemory/region/r/status")).status, 404);
  EXPECT_EQ(Ask(Post("/v2/cudasharedmemory/unregister", "")).status, 200);
  EXPECT_EQ(Ask(Post("/v2/cudasharedmemory/region/r/unregister", "")).status, 200);
  EXPECT_EQ(Ask(Post("/v2/cudasharedmemory/region/r/register", R"({"raw_handle":{"b64":"YQ=="}})"))
                .status,
            400);
}

TEST_F(RegionServer, SharedMemoryCanBeOff) {
  server_.reset();
  shared_memory_ = false;
  StartServer();
  const SharedObject object(64);
  const auto response = Register("r", object.key(), 64);
  EXPECT_EQ(response.status, 501);
  EXPECT_THAT(ErrorOf(response), HasSubstr("--shared-memory on"));
  EXPECT_EQ(Ask(Get("/v2/systemsharedmemory/status")).body, "[]");
  EXPECT_EQ(Ask(Post("/v2/systemsharedmemory/unregister", "")).status, 200);
  EXPECT_THAT(Ask(Get("/v2")).body, Not(HasSubstr("system_shared_memory")));
}

}  // namespace
}  // namespace lagoon
