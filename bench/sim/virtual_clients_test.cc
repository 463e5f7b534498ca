#include "bench/sim/virtual_clients.h"

#include <gtest/gtest.h>

#include "bench/sim/sim_plan.h"
#include "policies/registry.h"

namespace lagoon::bench {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A model of two kernels, each of 500 us on every unit.
SimModel TwoKernels() {
  SimModel model;
  model.statistics.model = "two";
  SimModelKernel kernel;
  kernel.blocks = 60;
  kernel.time = kernel.block.time = microseconds(500);
  model.kernels = {kernel, kernel};
  return model;
}

class VirtualClientsTest : public ::testing::Test {
 protected:
  void Use(const std::string& scheduler, std::vector<DisbClient> clients) {
    clients_ = std::move(clients);
    device_ = *CreateSimDevice("mi50");
    Scheduler made = *MakeScheduler(scheduler);
    dispatcher_ = std::make_unique<Dispatcher>(*device_, made.config, std::move(made.policy));
    const auto plan = *LoadSimPlan(TwoKernels(), *device_);
    for (const DisbClient& client : clients_) {
      instances_.push_back(*Instance::Create(plan, *device_));
      QueueOptions queue;
      queue.name = client.name;
      queue.job_class = client.job_class;
      queue.instances = {instances_.back().get()};
      queue.max_pending = 1000;
      queues_.emplace_back(*dispatcher_->AddQueue(queue));
    }
  }
  std::vector<VirtualRun> Run(const DisbWindow& window, Nanoseconds settle = milliseconds(2)) {
    VirtualClients clients(*device_, *dispatcher_, clients_, queues_);
    return clients.Run(window, settle);
  }
  static DisbClient Open(JobClass job_class) {
    DisbClient client{"open", "two", job_class, {}};
    client.load.kind = DisbLoad::Kind::kUniform;
    return client;
  }

  std::vector<DisbClient> clients_;
  std::unique_ptr<SimDevice> device_;
  std::vector<std::unique_ptr<Instance>> instances_;
  std::unique_ptr<Dispatcher> dispatcher_;
  std::vector<std::optional<QueueId>> queues_;
};

TEST_F(VirtualClientsTest, LatencyCountsFromTheIntendedArrival) {
  Use("sequential", {Open(JobClass::kRealTime)});
  // The second one waits for the first.
  const auto runs = Run({milliseconds(10), {{microseconds(100), microseconds(200)}}});
  ASSERT_EQ(runs[0].latencies_ms.size(), 2u);
  EXPECT_NEAR(runs[0].latencies_ms[0], 1.0, 0.05);
  EXPECT_NEAR(runs[0].latencies_ms[1], 1.9, 0.1);
  EXPECT_EQ(runs[0].completed, 2);
}

TEST_F(VirtualClientsTest, StartsAreOfRealTimeRequestsThatMeetNoOther) {
  Use("sequential", {Open(JobClass::kRealTime), {"loop", "two", JobClass::kBestEffort, {}}});
  // The second one meets the first, the third one only best-effort work.
  const auto runs =
      Run({milliseconds(20), {{microseconds(100), microseconds(200), milliseconds(10)}, {}}});
  EXPECT_EQ(runs[0].starts_us.size(), 2u);
  for (const double start : runs[0].starts_us) EXPECT_LT(start, 1100);
  EXPECT_TRUE(runs[1].starts_us.empty());
}

TEST_F(VirtualClientsTest, WhatEndsAfterTheWindowHasALatencyButNoThroughput) {
  Use("sequential", {Open(JobClass::kRealTime)});
  const auto runs = Run({milliseconds(1), {{microseconds(900)}}});
  EXPECT_EQ(runs[0].latencies_ms.size(), 1u);
  EXPECT_EQ(runs[0].completed, 0);
}

TEST_F(VirtualClientsTest, AClosedLoopCountsByItsTimeInTheWindow) {
  Use("sequential", {{"loop", "two", JobClass::kBestEffort, {}}});
  const auto runs = Run({microseconds(10'500), {{}}});
  EXPECT_NEAR(runs[0].completed, 10.5 / 1.025, 0.2);
  EXPECT_NEAR(static_cast<double>(runs[0].latencies_ms.size()), 10, 1);
}

TEST_F(VirtualClientsTest, ARequestThatSpansTheWindowIsNoThroughput) {
  Use("sequential", {{"loop", "two", JobClass::kBestEffort, {}}});
  // The window begins and ends within the first request.
  const auto runs = Run({microseconds(500), {{}}}, microseconds(200));
  EXPECT_EQ(runs[0].ended, 0u);
  EXPECT_EQ(runs[0].completed, 0);
}

TEST_F(VirtualClientsTest, WithFewRequestsOnlyWholeOnesCount) {
  Use("sequential", {{"loop", "two", JobClass::kBestEffort, {}}});
  const auto runs = Run({microseconds(3'500), {{}}});
  EXPECT_EQ(runs[0].completed, static_cast<double>(runs[0].ended));
  EXPECT_NEAR(runs[0].completed, 3, 1);
}

// The first request takes 1 ms. Three come meanwhile: the newest one is sent when the first ends.
TEST_F(VirtualClientsTest, AClientMayTakeTheNewestRequestAndDropTheOthers) {
  DisbClient client = Open(JobClass::kRealTime);
  client.load.late = DisbLoad::Late::kNewest;
  Use("sequential", {client});
  const auto runs = Run({milliseconds(10),
                         {{microseconds(100), microseconds(200), microseconds(300),
                           microseconds(900), milliseconds(5)}}});
  EXPECT_EQ(runs[0].dropped, 2u);
  ASSERT_EQ(runs[0].latencies_ms.size(), 3u);
  EXPECT_EQ(runs[0].completed, 3);
  for (const double ms : runs[0].latencies_ms) EXPECT_NEAR(ms, 1, 0.05);
  ASSERT_EQ(runs[0].from_arrival_ms.size(), 3u);
  EXPECT_NEAR(runs[0].from_arrival_ms[0], 1, 0.05);
  EXPECT_NEAR(runs[0].from_arrival_ms[1], 1.2, 0.1);  // waited for the first one
  EXPECT_NEAR(runs[0].from_arrival_ms[2], 1, 0.05);
}

TEST_F(VirtualClientsTest, AClientWithoutAQueueSendsNothing) {
  Use("reset", {Open(JobClass::kRealTime), {"loop", "two", JobClass::kBestEffort, {}}});
  queues_[1].reset();
  const auto runs = Run({milliseconds(5), {{milliseconds(1)}, {}}});
  EXPECT_EQ(runs[0].latencies_ms.size(), 1u);
  EXPECT_TRUE(runs[1].latencies_ms.empty());
  EXPECT_EQ(runs[1].completed, 0);
}

TEST_F(VirtualClientsTest, ALoopEndsThoughOpenRequestsComeFasterThanTheyAreServed) {
  Use("streams", {Open(JobClass::kRealTime), {"loop", "two", JobClass::kBestEffort, {}}});
  DisbWindow window{milliseconds(20), {{}, {}}};
  for (int i = 0; i < 200; ++i) window.arrivals[0].push_back(microseconds(100) * i);
  const auto runs = Run(window);
  EXPECT_EQ(runs[0].latencies_ms.size(), 200u);
  EXPECT_GT(runs[1].completed, 1);
  EXPECT_LT(runs[0].completed, 25);
}

}  // namespace
}  // namespace lagoon::bench
