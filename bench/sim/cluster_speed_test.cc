#include "bench/sim/cluster_speed.h"

#include <gtest/gtest.h>

namespace lagoon::bench {
namespace {

using Json = nlohmann::json;

Json MetricsOf(const ClusterSpeedOptions& options) {
  Report report("cluster-sim", {}, "test");
  const Status status = RunClusterSpeed(options, report);
  EXPECT_TRUE(status) << status.error().message;
  return report.json().at("metrics");
}

// Each device has five models with 400 requests a second each.
TEST(ClusterSpeed, SimulatesTheLoadThatItNames) {
  for (const int gpus : {1, 3}) {
    const Json metrics = MetricsOf({.gpus = gpus, .seconds = 5});
    const double expected = gpus * 5 * 400.0 * 5;
    const double tasks = metrics.at("cluster_sim_tasks");
    EXPECT_NEAR(tasks, expected, 0.05 * expected) << gpus;
    const double batches = metrics.at("cluster_sim_batches");
    EXPECT_GT(batches, gpus * 5 * 5.0) << gpus;
    EXPECT_LE(batches, tasks) << gpus;
    EXPECT_GE(metrics.at("cluster_sim_events").get<double>(), batches) << gpus;
    const double took = metrics.at("cluster_sim_seconds.gpus" + std::to_string(gpus));
    EXPECT_GT(took, 0);
    EXPECT_NEAR(metrics.at("cluster_sim_tasks_per_s").get<double>(), tasks / took,
                1e-6 * tasks / took);
  }
}

TEST(ClusterSpeed, TheSeedDecidesWhatIsSimulated) {
  const auto tasks = [](unsigned seed) {
    const Json metrics = MetricsOf({.gpus = 1, .seconds = 2, .seed = seed});
    return std::pair(metrics.at("cluster_sim_tasks"), metrics.at("cluster_sim_events"));
  };
  EXPECT_EQ(tasks(1), tasks(1));
  EXPECT_NE(tasks(1), tasks(2));
}

TEST(ClusterSpeed, RefusesWhatCannotBeSimulated) {
  for (const ClusterSpeedOptions& options :
       {ClusterSpeedOptions{.gpus = 0}, ClusterSpeedOptions{.gpus = 1, .seconds = 0},
        ClusterSpeedOptions{.gpus = 1025, .seconds = 1}}) {
    Report report("cluster-sim", {}, "test");
    const Status status = RunClusterSpeed(options, report);
    ASSERT_FALSE(status) << options.gpus << " " << options.seconds;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace lagoon::bench
