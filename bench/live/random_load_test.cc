#include "bench/live/random_load.h"

#include <gtest/gtest.h>

#include "base/testing/paths.h"

namespace lagoon::bench {
namespace {

// The device falls behind at 400 times the load that it can serve, and not at a twentieth of it.
TEST(RandomLoad, ASaturatedSystemGetsNoLargerLoad) {
  RandomLoadOptions options;
  options.zoo = SourceFolder() + "/models/repository";
  options.models = {"digits"};
  options.schedulers = {"fifo"};
  options.device.workers = 1;
  options.loads = {0.05, 400, 500};
  options.sigmas = {0};
  options.jobs = 1000;
  options.windows = 1;
  options.against_onnxruntime = false;
  Report report("load", {}, "test");
  const Status status = RunRandomLoad(options, report);
  ASSERT_TRUE(status.has_value()) << status.error().message;
  const nlohmann::json& metrics = report.json()["metrics"];
  EXPECT_GT(metrics.value("latency_ms_p99.fifo.sigma0.load400", 0.0),
            metrics.value("latency_ms_p99.fifo.sigma0.load0.05", 0.0));
  EXPECT_FALSE(metrics.contains("latency_ms_p99.fifo.sigma0.load500"));
  EXPECT_EQ(report.json()["saturated"]["fifo"]["sigma0"], 400);
  EXPECT_TRUE(metrics.contains("latency_ms_p99.fifo.sigma0.load0.05.digits"));
  EXPECT_GT(metrics.value("jobs_per_second_at_load_1", 0.0), 0);
}

}  // namespace
}  // namespace lagoon::bench
