#include "bench/sim/timed_device.h"

#include <gtest/gtest.h>

#include "bench/sim/decision.h"
#include "bench/sim/sim_jobs.h"
#include "bench/sim/sim_speed.h"

namespace lagoon::bench {
namespace {

TEST(TimedDevice, CountsTheDispatchersTimeApartFromTheDevices) {
  const SimJobs jobs = *SimJobs::Disb("gv100", "C");
  TimedDevice* timed = nullptr;
  const auto wrap = [&](Device& device) {
    auto made = std::make_unique<TimedDevice>(device);
    timed = made.get();
    return made;
  };
  SimStage stage = *SimStage::Open({.gpu = *LoadGpuModel("gv100")}, *MakeScheduler("reset"),
                                   jobs.Queues(), wrap);
  stage.Run(jobs.clients, jobs.Window(std::chrono::milliseconds(5)), Nanoseconds(0));
  EXPECT_GT(timed->inside_while_listening(), Nanoseconds(0));
  EXPECT_GE(timed->inside(), timed->inside_while_listening());
  EXPECT_GT(timed->listening(), timed->inside_while_listening());
  // Post() also submits launches, outside of the listener.
  EXPECT_GT(timed->launches_while_listening(), 100u);
  EXPECT_LT(timed->launches_while_listening(), stage.dispatcher().Stats().launches);
}

TEST(Decision, ReportsEveryCase) {
  Report report("decision", {}, "test");
  const Status status = RunDecision({.rounds = 1, .seconds = 0.005}, report);
  ASSERT_TRUE(status) << status.error().message;
  const nlohmann::json& metrics = report.json().at("metrics");
  for (const std::string name : {"five_best_effort", "thousand_ready"}) {
    const double median = metrics.at("decision_us_median." + name);
    EXPECT_GT(median, metrics.at("pick_us_median." + name).get<double>()) << name;
    EXPECT_GE(metrics.at("decision_us_p99." + name), median) << name;
    EXPECT_GE(metrics.at("kernels_per_decision." + name), 1) << name;
    EXPECT_GT(metrics.at("dispatcher_us_per_kernel." + name), 0) << name;
  }
}

TEST(SimSpeed, TheHeadlineIsTheSlowerOfThePapersModels) {
  Report report("sim", {}, "test");
  const Status status = RunSimSpeed({.rounds = 1, .seconds = 0.01}, report);
  ASSERT_TRUE(status) << status.error().message;
  const nlohmann::json& metrics = report.json().at("metrics");
  const std::string name = "sim_block_events_per_second";
  const double a = metrics.at(name + ".lagoon.gv100"), b = metrics.at(name + ".paella.t4");
  EXPECT_GT(metrics.at(name + ".paella.gtx1660s"), 0);
  EXPECT_EQ(metrics.at(name), std::min(a, b));
}

}  // namespace
}  // namespace lagoon::bench
