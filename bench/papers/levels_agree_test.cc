// The batch-level simulator against the kernel-level one, which gives it the times of batches that
// are alone on a share: throughput of one model, and of two models side by side, within 5 %.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "bench/shares/sim_rows.h"
#include "bench/sim/sim_stage.h"
#include "cluster/share_points.h"
#include "sim/cluster/cluster_sim.h"

namespace lagoon::bench {
namespace {

using std::chrono::seconds;

constexpr std::uint32_t kUnits = 80;  // of the V100

// A model in a closed loop of one batch at a time.
struct Member {
  std::string model;
  std::uint32_t percent = 100;
  std::int64_t rows = 1;
};

GpuModel V100() { return *LoadGpuModel("v100"); }

// Rows a second, by member.
std::vector<double> KernelLevel(const std::vector<Member>& members) {
  std::vector<SimModel> models;
  for (const Member& member : members) {
    models.push_back(*MakeSimRows(V100(), member.model, member.rows));
  }
  std::vector<SimStageQueue> queues;
  std::vector<DisbClient> clients;
  DisbWindow window{seconds(1), {}};
  std::uint32_t first = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const std::uint32_t units = kUnits * members[i].percent / 100;
    const std::string name = members[i].model + std::to_string(i);
    queues.push_back({name, JobClass::kBestEffort, &models[i], 1, {first, units}});
    clients.push_back({name, name, JobClass::kBestEffort, {}});
    window.arrivals.emplace_back();
    first += units;
  }
  auto stage = SimStage::Open({.gpu = V100()}, *MakeScheduler("shares"), queues);
  EXPECT_TRUE(stage) << stage.error().message;
  const std::vector<VirtualRun> runs = stage->Run(clients, window, std::chrono::milliseconds(100));
  std::vector<double> per_second;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto rows = static_cast<double>(members[i].rows);
    per_second.push_back(rows * static_cast<double>(runs[i].completed));
  }
  return per_second;
}

Surface SurfaceOf(const std::string& model) {
  const SharePoints plan = *PlanShares(kUnits, 1, "20,40,60,80,100", {1, 4});
  std::vector<std::vector<double>> latency_ms;
  for (const std::int64_t rows : plan.rows) {
    const SimModel made = *MakeSimRows(V100(), model, rows);
    std::vector<double>& times = latency_ms.emplace_back();
    for (const std::uint32_t units : plan.measured) {
      times.push_back(*SimShareMs(V100(), made, units));
    }
  }
  return *lagoon::SurfaceOf(plan, std::move(latency_ms));
}

std::vector<double> BatchLevel(const std::vector<Member>& members) {
  std::map<std::string, Surface> surfaces;
  ClusterSpec spec;
  spec.gpus = {GpuSpec{}};
  spec.truth = TruthSpec::Exact();
  spec.length = seconds(5);
  spec.warmup = seconds(1);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    ModelSpec& model = spec.models.emplace_back();
    model.name = member.model + std::to_string(i);
    model.surface = &surfaces.try_emplace(member.model, SurfaceOf(member.model)).first->second;
    model.arrivals = ClosedLoop(member.rows);
    model.batching.rows = member.rows;
    model.slo = seconds(1);
    spec.replicas.push_back({.model = i, .gpu = 0, .granules = member.percent});
  }
  const Status valid = CheckCluster(spec);
  EXPECT_TRUE(valid) << valid.error().message;
  SimController none;
  const SimReport report = ClusterSim(spec).Run(none);
  std::vector<double> per_second;
  for (std::size_t i = 0; i < members.size(); ++i) per_second.push_back(report.Throughput(i));
  return per_second;
}

void ExpectAgreement(const std::vector<Member>& members) {
  const std::vector<double> kernels = KernelLevel(members), batches = BatchLevel(members);
  for (std::size_t i = 0; i < members.size(); ++i) {
    EXPECT_GT(kernels[i], 20) << members[i].model << ": too few to compare";
    EXPECT_NEAR(batches[i], kernels[i], 0.05 * kernels[i])
        << members[i].model << " on " << members[i].percent << " %, " << members[i].rows << " rows";
  }
}

TEST(LevelsAgree, OneModelOnTheWholeDeviceAndOnAShare) {
  ExpectAgreement({{"resnet50", 100}});
  ExpectAgreement({{"resnet50", 40}});
  ExpectAgreement({{"alexnet", 60, 4}});
}

TEST(LevelsAgree, TwoModelsInShares) {
  ExpectAgreement({{"resnet50", 60}, {"alexnet", 40}});
  ExpectAgreement({{"vgg19", 80}, {"resnet50", 20, 4}});
}

// The surface has no point at 50 %.
TEST(LevelsAgree, AShareBetweenThePointsOfTheSurface) { ExpectAgreement({{"resnet50", 50}}); }

}  // namespace
}  // namespace lagoon::bench
