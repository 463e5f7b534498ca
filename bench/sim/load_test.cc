#include "bench/sim/load.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "bench/sim/cpu_kernel_lists.h"

namespace lagoon::bench {
namespace {

TEST(Load, EveryJobRunsAndAnIdleDeviceTakesTheModelsTime) {
  const LoadMix mix = *LoadMix::Open("t4", {{"resnet18", 0.75}, {"inceptionv3", 0.25}});
  const LoadResult result =
      *RunLoad(mix, {.sigma = 1.5, .jobs = 200}, 0.5, *MakeScheduler("job-streams"));
  EXPECT_EQ(result.latencies_ms.size(), 200u);
  EXPECT_NEAR(static_cast<double>(result.by_model[0].size()), 150, 25);
  EXPECT_NEAR(result.per_second, 0.5, 0.01);
  EXPECT_NEAR(*std::min_element(result.by_model[0].begin(), result.by_model[0].end()), 1.58, 0.1);
  EXPECT_NEAR(*std::min_element(result.by_model[1].begin(), result.by_model[1].end()), 31.2, 0.6);
}

TEST(Load, OverloadShowsInBothThroughputAndLatency) {
  const LoadMix mix = *LoadMix::Open("t4", {{"inceptionv3", 1}});
  const LoadResult result =
      *RunLoad(mix, {.sigma = 0, .jobs = 100}, 1000, *MakeScheduler("single-stream"));
  EXPECT_NEAR(result.per_second, 1000 / 31.2, 1);
  EXPECT_GT(result.latencies_ms.back(), 1000);
}

TEST(Load, AModelThatIsNotThereIsNamed) {
  const auto mix = LoadMix::Open("t4", {{"vgg19", 1}});
  ASSERT_FALSE(mix);
  EXPECT_NE(mix.error().message.find("vgg19"), std::string::npos);
}

SimRandomLoadOptions OneModel() {
  SimRandomLoadOptions options;
  options.gpu = *LoadGpuModel("t4");
  options.models = {"resnet18"};
  options.schedulers = {"job-streams", "single-stream"};
  options.loads = {0.05, 100};
  options.sigmas = {0};
  options.jobs = 100;
  options.windows = 2;
  return options;
}

TEST(RandomLoadOnSim, AnIdleDeviceTakesTheModelsTimeAndAnOverloadedOneSaturates) {
  const SimRandomLoadOptions options = OneModel();
  Report report("load", {}, "test"), again("load", {}, "test");
  ASSERT_TRUE(RunRandomLoadOnSim(options, report));
  ASSERT_TRUE(RunRandomLoadOnSim(options, again));
  const nlohmann::json& metrics = report.json()["metrics"];
  EXPECT_EQ(metrics, again.json()["metrics"]);
  EXPECT_NEAR(metrics.at("standalone_ms.resnet18").get<double>(), 1.58, 0.1);
  EXPECT_NEAR(metrics.at("latency_ms_p50.job-streams.sigma0.load0.05").get<double>(), 1.58, 0.1);
  EXPECT_EQ(report.json()["saturated"]["single-stream"]["sigma0"], 100);
  EXPECT_FALSE(report.json().contains("host"));
}

TEST(RandomLoadOnSim, TheFirstWindowOfEachSystemIsWatched) {
  SimRandomLoadOptions options = OneModel();
  std::vector<std::string> seen;
  options.watch.begin = [&](Device&, const std::string& system) {
    seen.push_back(system);
    return nullptr;
  };
  options.watch.end = [&]() -> Status {
    seen.emplace_back("end");
    return {};
  };
  Report report("load", {}, "test");
  ASSERT_TRUE(RunRandomLoadOnSim(options, report));
  EXPECT_EQ(seen, (std::vector<std::string>{"job-streams", "end", "single-stream", "end"}));
}

TEST(RandomLoadOnSim, AModelWithoutKernelsIsNamedAndAnOwnListIsUsed) {
  SimRandomLoadOptions options = OneModel();
  options.models = {"cam"};
  Report report("load", {}, "test");
  const Status missing = RunRandomLoadOnSim(options, report);
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("no model 'cam'"), std::string::npos);
  EXPECT_NE(missing.error().message.find("--kernels MODEL=FILE"), std::string::npos);
  options.kernels.own["cam"] = *MakeSimModel("t4", "inceptionv3");
  ASSERT_TRUE(RunRandomLoadOnSim(options, report));
  EXPECT_NEAR(report.json()["metrics"].at("standalone_ms.cam").get<double>(), 31.2, 0.6);
}

TEST(SimKernels, AllModelsAreThoseOfAUserAndOfTheChosenDevice) {
  const GpuModel gpu = *LoadGpuModel("t4");
  const SimModel own = *MakeSimModel("t4", "resnet18");
  const std::vector<std::string> of_t4 = ModelsWithKernels({}, gpu);
  EXPECT_EQ(of_t4.size(), 8u);
  EXPECT_EQ(ModelsWithKernels({.own = {{"resnet18", own}}}, gpu).size(), 8u);
  EXPECT_EQ(ModelsWithKernels({.own = {{"cam", own}}}, gpu).size(), 9u);
  EXPECT_EQ(ModelsWithKernels({.own = {}, .of = "mi50"}, gpu),
            (std::vector<std::string>{"resnet152", "vgg19", "yolov3", "bert", "gpt2"}));
  EXPECT_EQ(ModelsWithKernels({.own = {}, .of = "cpu2"}, gpu).size(), CpuSimModels().size());
}

TEST(SimKernels, AllMissingModelsAreNamedOnce) {
  const GpuModel gpu = *LoadGpuModel("mi50");
  const auto found = FindKernels({}, gpu, {"a", "vgg19", "b", "a"});
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("no model 'a', 'b': it has resnet152, vgg19"),
            std::string::npos)
      << found.error().message;
  const auto all = FindKernels({}, gpu, {"vgg19", "bert", "vgg19"});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->size(), 2u);
}

}  // namespace
}  // namespace lagoon::bench
