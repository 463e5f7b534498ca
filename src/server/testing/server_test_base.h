#pragma once

// For tests: a server on free ports over a FakeCore.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/server.h"
#include "server/testing/fake_core.h"

namespace lagoon {

class ServerTest : public testing::Test {
 protected:
  ServerOptions Options() const {
    ServerOptions options;
    options.http_port = options.grpc_port = options.metrics_port = 0;
    options.http = limits_;
    options.max_buffered_bytes = max_buffered_bytes_;
    options.admin_on_http = admin_on_http_;
    options.model_control = model_control_;
    options.strict_readiness = strict_readiness_;
    options.allowed_hosts = allowed_hosts_;
    options.shared_memory = shared_memory_;
    return options;
  }
  void StartServer() {
    auto server = Server::Start(core_, Options());
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  void SetUp() override { StartServer(); }

  /// True when `condition` becomes true within ten seconds.
  template <typename Condition>
  static bool Eventually(Condition condition) {
    const TimePoint until = Now() + std::chrono::seconds(10);
    while (Now() < until) {
      if (condition()) return true;
      std::this_thread::yield();
    }
    return condition();
  }

  HttpLimits limits_;
  std::size_t max_buffered_bytes_ = std::size_t{64} << 20;
  bool admin_on_http_ = false;
  bool model_control_ = false;
  bool strict_readiness_ = false;
  std::vector<std::string> allowed_hosts_;
  std::optional<bool> shared_memory_;
  FakeCore core_;
  std::unique_ptr<Server> server_;
};

}  // namespace lagoon
