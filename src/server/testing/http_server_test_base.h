#pragma once

// For tests: requests, and a server that answers them.

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "server/testing/http_test_client.h"
#include "server/testing/server_test_base.h"

namespace lagoon {

using Json = nlohmann::json;

inline std::string Get(std::string_view path) {
  return fmt::format("GET {} HTTP/1.1\r\nHost: test\r\n\r\n", path);
}

inline std::string Post(std::string_view path, std::string_view body,
                        std::string_view fields = "") {
  return fmt::format("POST {} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n{}\r\n{}", path,
                     body.size(), fields, body);
}

inline const std::string kTwice =
    R"({"id":"r1","inputs":[{"name":"x","datatype":"FP32","shape":[1,4],"data":[[1,2,3,4]]}]})";

class HttpServer : public ServerTest {
 protected:
  HttpTestResponse Ask(std::string_view request) {
    HttpTestClient client(server_->http_port());
    EXPECT_TRUE(client.Send(request));
    return client.Receive();
  }
  static std::string ErrorOf(const HttpTestResponse& response) {
    const Json json = Json::parse(response.body, nullptr, false);
    return json.is_object() && json.contains("error") ? json["error"].get<std::string>()
                                                      : "no JSON error: " + response.body;
  }
};

}  // namespace lagoon
