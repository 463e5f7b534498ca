#include "bench/sim/cpu_kernel_lists.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/disb_workload.h"
#include "bench/sim/sim_plan.h"
#include "bench/sim/sim_stage.h"

namespace lagoon::bench {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Latency of one request alone.
Nanoseconds Alone(const SimModel& model) {
  const std::string name(model.statistics.model);
  const std::vector<DisbClient> clients{{name, name, JobClass::kRealTime, {}}};
  const std::vector<SimStageQueue> queues{{name, JobClass::kRealTime, &model}};
  const GpuModel cpu = *LoadGpuModel(std::string(model.statistics.device));
  SimStage stage = *SimStage::Open({.gpu = cpu}, *MakeScheduler("sequential"), queues);
  const DisbWindow window{std::chrono::seconds(1), {{}}};
  const double ms = stage.Run(clients, window, Nanoseconds(0)).front().latencies_ms.front();
  return Nanoseconds(static_cast<std::int64_t>(ms * 1e6));
}

// A request takes at least the time of its blocks divided by the cores, and at most that of its
// kernels one after the other with the steps of each launch.
TEST(CpuSimModels, ARequestTakesTheTimeOfItsBlocks) {
  for (const std::string_view name : CpuSimModels()) {
    Nanoseconds before = Nanoseconds::max();
    for (const char* const device : {"cpu2", "cpu4", "cpu8"}) {
      const SimModel model = *MakeSimModel(device, name);
      const auto cores = LoadGpuModel(device)->constants.units;
      Nanoseconds work{0};
      for (const SimModelKernel& kernel : model.kernels) work += kernel.blocks * kernel.block.time;
      const Nanoseconds alone = Alone(model);
      EXPECT_GE(alone, work / cores) << device << " " << name;
      EXPECT_LE(alone, model.statistics.time + std::chrono::microseconds(20))
          << device << " " << name;
      EXPECT_LT(alone, before) << device << " " << name;
      before = alone;
    }
  }
}

TEST(CpuSimModels, DependOnEarlierKernels) {
  for (const std::string_view name : CpuSimModels()) {
    const SimModel model = *MakeSimModel("cpu8", name);
    ASSERT_EQ(model.kernels.size(), model.statistics.kernels);
    for (std::uint32_t i = 0; i < model.kernels.size(); ++i) {
      EXPECT_GT(model.kernels[i].blocks, 0u);
      for (const std::uint32_t dep : model.kernels[i].deps.value_or(std::vector<std::uint32_t>{})) {
        EXPECT_LT(dep, i) << name;
      }
    }
  }
}

// The branches of GoogLeNet wait for the same kernel, so that they run beside each other.
TEST(CpuSimModels, PlansHaveTheBranches) {
  const SimModel model = *MakeSimModel("cpu8", "googlenet");
  auto device = *CreateSimDevice("cpu8");
  const std::shared_ptr<const LoadedPlan> loaded = *LoadSimPlan(model, *device);
  const std::vector<PlanOp>& ops = loaded->plan.ops;
  EXPECT_THAT(ops[16].deps, ElementsAre(15));
  EXPECT_THAT(ops[17].deps, ElementsAre(15));
  EXPECT_THAT(ops[18].deps, ElementsAre(17));
  EXPECT_THAT(ops[23].deps, ElementsAre(16, 18, 20, 22));
}

// Frozen: a change of a list changes every figure that was predicted with the list.
TEST(CpuSimModels, ListsAreFrozen) {
  std::uint64_t sum = 14695981039346656037u;
  const auto add = [&sum](std::uint64_t value) { sum = (sum ^ value) * 1099511628211u; };
  for (const std::string_view name : CpuSimModels()) {
    const SimModel model = *MakeSimModel("cpu8", name);
    for (const SimModelKernel& kernel : model.kernels) {
      add(kernel.blocks);
      add(static_cast<std::uint64_t>(kernel.block.time.count()));
      if (!kernel.deps) continue;
      for (const std::uint32_t dep : *kernel.deps) add(dep);
    }
  }
  EXPECT_EQ(sum, 1008814031822312327u);
}

TEST(CpuSimModels, UnknownOnesAreNamed) {
  const Result<SimModel> none = MakeSimModel("cpu8", "gpt2");
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message,
              AllOf(HasSubstr("'cpu8'"), HasSubstr("'gpt2'"), HasSubstr("resnet18, googlenet")));
  EXPECT_THAT(MakeSimModel("cpu3", "resnet18").error().message, HasSubstr("it has none"));
}

}  // namespace
}  // namespace lagoon::bench
