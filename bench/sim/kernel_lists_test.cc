#include "bench/sim/kernel_lists.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "bench/sim/kernel_versions.h"
#include "bench/sim/sim_plan.h"
#include "sim/device/testing/sim_fixture.h"

namespace lagoon::sim_testing {
namespace {

using std::chrono::microseconds;
using testing::Each;
using testing::HasSubstr;
using testing::Truly;

// One execution alone, all kernels submitted at once to one stream: from the first block to the
// last commit.
Nanoseconds RunAlone(const SimModel& model) {
  const auto device = *CreateSimDevice(std::string(model.statistics.device));
  Session session(*device);
  const StreamId stream = session.NewStream();
  std::vector<std::unique_ptr<Record>> records;
  std::vector<LaunchId> ids;
  for (const SimModelKernel& kernel : model.kernels) {
    records.push_back(std::make_unique<Record>(kernel.blocks));
    const Launch launch{.kernel = LoadKernel(*device, kernel.block),
                        .progress = records.back()->get()};
    ids.push_back(session.Submit(launch, {stream}));
  }
  session.AwaitAllRetired();
  return session.CompleteAt(ids.back()) - session.PlacedAt(ids.front());
}

TEST(SimModels, RunAsLongAsPublishedAlone) {
  for (const SimModelStatistics& statistics : SimModelTable()) {
    const Result<SimModel> model = MakeSimModel(statistics.device, statistics.model);
    ASSERT_TRUE(model.has_value()) << model.error().message;
    ASSERT_EQ(model->kernels.size(), statistics.kernels);
    const double expected = ToMicroseconds(statistics.time);
    EXPECT_NEAR(ToMicroseconds(RunAlone(*model)), expected, 0.005 * expected)
        << statistics.device << " " << statistics.model;
  }
}

// The same with `depth` kernels in the device's queue: the host submits the next one when one has
// retired.
Nanoseconds RunAtDepth(const SimModel& model, std::size_t depth) {
  const auto device = *CreateSimDevice(std::string(model.statistics.device));
  const std::size_t count = model.kernels.size();
  std::vector<std::unique_ptr<Record>> records;
  std::vector<KernelHandle> kernels;
  std::vector<Dep> deps;
  for (const SimModelKernel& kernel : model.kernels) {
    records.push_back(std::make_unique<Record>(kernel.blocks));
    kernels.push_back(LoadKernel(*device, kernel.block));
    deps.push_back(records.back()->AllDone());
  }
  std::size_t submitted = 0, retired = 0;
  TimePoint first, last;
  while (retired < count) {
    for (; submitted < count && submitted < retired + depth; ++submitted) {
      Launch launch{.id = LaunchId{submitted},
                    .kernel = kernels[submitted],
                    .progress = records[submitted]->get()};
      if (submitted > 0) launch.deps = {&deps[submitted - 1], 1};
      EXPECT_EQ(device->Submit(launch), SubmitResult::kOk);
    }
    device->Wait(kNoDeadline);
    DeviceEvent event;
    while (device->Poll({&event, 1}) == 1) {
      if (event.kind == DeviceEvent::Kind::kPlaced && first == TimePoint{}) first = event.at;
      if (event.kind == DeviceEvent::Kind::kComplete) last = event.at;
      if (event.kind == DeviceEvent::Kind::kRetired) ++retired;
    }
  }
  return last - first;
}

// REEF, Figure 21a: ResNet-152 takes 14.3 ms at a queue depth of 1, 12.3 ms at 4, and 0.3 % less
// with all kernels in the queue.
TEST(SimModels, AShortDeviceQueueCostsWhatReefMeasured) {
  const SimModel model = *MakeSimModel("mi50", "resnet152");
  const double one = ToMicroseconds(RunAtDepth(model, 1));
  const double four = ToMicroseconds(RunAtDepth(model, 4));
  const double all = ToMicroseconds(RunAtDepth(model, model.kernels.size()));
  EXPECT_NEAR(one - four, 2'000, 200);
  EXPECT_LE(four, 1.003 * all);
}

TEST(SimModels, HaveTheStatisticsThatTheyWereMadeFrom) {
  for (const SimModelStatistics& statistics : SimModelTable()) {
    const SimModel model = *MakeSimModel(statistics.device, statistics.model);
    const auto units =
        static_cast<double>(LoadGpuModel(std::string(statistics.device))->constants.units);
    double use = 0, time = 0;
    for (const SimModelKernel& kernel : model.kernels) {
      EXPECT_GE(kernel.time, statistics.shortest);
      const double fraction = std::min<double>(kernel.blocks, units) / units;
      EXPECT_GE(fraction, statistics.least_use - 0.5 / units);
      EXPECT_LE(fraction, statistics.most_use + 0.5 / units);
      use += fraction * ToMicroseconds(kernel.time);
      time += ToMicroseconds(kernel.time);
    }
    EXPECT_NEAR(use / time, statistics.mean_use, 0.02) << statistics.model;
  }
}

// REEF 2.1, Figure 3: from 10 to 365 us, on 4 to 52 of 60 units.
TEST(SimModels, VggHasThePublishedRanges) {
  const SimModel vgg = *MakeSimModel("mi50", "vgg19");
  const auto [shortest, longest] = std::minmax_element(
      vgg.kernels.begin(), vgg.kernels.end(),
      [](const SimModelKernel& a, const SimModelKernel& b) { return a.time < b.time; });
  EXPECT_LT(shortest->time, microseconds(11));
  EXPECT_EQ(longest->time, microseconds(365));
  const auto [narrow, wide] = std::minmax_element(
      vgg.kernels.begin(), vgg.kernels.end(),
      [](const SimModelKernel& a, const SimModelKernel& b) { return a.blocks < b.blocks; });
  EXPECT_LE(narrow->blocks, 6u);
  EXPECT_GE(narrow->blocks, 4u);
  EXPECT_LE(wide->blocks, 52u);
  EXPECT_GE(wide->blocks, 50u);
}

// REEF, Table 1 and 4.4: TensorRT's and PyTorch's kernels, and groups of at most nine.
TEST(SimModels, KernelsOfEnginesRestartWithGroups) {
  const SimModel torch = *MakeSimModel("gv100", "torch-resnet152");
  std::size_t not_idempotent = 0, alone = 0, largest = 0;
  for (std::uint32_t i = 0; i < torch.kernels.size(); ++i) {
    if (torch.kernels[i].restart != Restart::kByGroup) continue;
    ++not_idempotent;
    ASSERT_LE(torch.kernels[i].group_first, i);
    const std::size_t size = i + 1 - torch.kernels[i].group_first;
    alone += size == 1 ? 1 : 0;
    largest = std::max(largest, size);
  }
  EXPECT_EQ(not_idempotent, 66u);
  EXPECT_NEAR(static_cast<double>(alone), 33, 1);
  EXPECT_EQ(largest, 9u);
  SimModelStatistics wrong = SimModelTable().front();
  wrong.not_idempotent = 208;
  EXPECT_THAT(MakeSimModel(wrong, 60, Nanoseconds(0)).error().message,
              HasSubstr("208 of 207 kernels are not idempotent"));
}

// Frozen: a change of a list changes every figure that was predicted with the list.
TEST(SimModels, ListsAreFrozen) {
  std::uint64_t sum = 14695981039346656037u;
  for (const SimModelStatistics& statistics : SimModelTable()) {
    const SimModel model = *MakeSimModel(statistics.device, statistics.model);
    for (const SimModelKernel& kernel : model.kernels) {
      for (const std::uint64_t value :
           {std::uint64_t{kernel.blocks}, static_cast<std::uint64_t>(kernel.block.time.count()),
            std::uint64_t{kernel.group_first}}) {
        sum = (sum ^ value) * 1099511628211u;
      }
    }
  }
  EXPECT_EQ(sum, 15177993167756432149u);
}

TEST(SimModels, UnknownAndContradictoryOnesAreNamed) {
  const Result<SimModel> none = MakeSimModel("mi50", "alexnet");
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, HasSubstr("'alexnet'"));
  EXPECT_THAT(none.error().message, HasSubstr("vgg19"));
  EXPECT_THAT(MakeSimModel("h200", "vgg19").error().message, HasSubstr("it has none"));
  SimModelStatistics wrong = SimModelTable().front();
  wrong.time = microseconds(100);
  EXPECT_THAT(MakeSimModel(wrong, 60, Nanoseconds(0)).error().message,
              HasSubstr("207 kernels of at least 10000 ns do not fit into 100000 ns"));
  wrong = SimModelTable().front();
  wrong.most_use = 0.1;
  EXPECT_THAT(MakeSimModel(wrong, 60, Nanoseconds(0)).error().message, HasSubstr("0.067 to 0.1"));
}

// ---- Versions

SimModelKernel Kernel(Nanoseconds block, std::uint32_t threads) {
  SimModelKernel kernel;
  kernel.blocks = 30;
  kernel.block = {.time = block, .threads = threads, .registers_per_thread = 64};
  kernel.block.use_permille = 1000;
  kernel.time = block;
  return kernel;
}

TEST(KernelVersions, AreAtMostTenAndTheFirstIsTheLists) {
  const SimModelKernel kernel = Kernel(microseconds(40), 256);
  const std::vector<SimKernelVersion> versions = VersionsOf(kernel);
  EXPECT_GT(versions.size(), 6u);
  EXPECT_LE(versions.size(), 10u);
  EXPECT_EQ(versions[0].blocks, kernel.blocks);
  EXPECT_EQ(versions[0].block.time, kernel.block.time);
  EXPECT_EQ(versions[0].block.use_permille, kernel.block.use_permille);
  EXPECT_EQ(versions[0].time, kernel.time);
}

// Shorter blocks are more, and cost more in all; narrower ones share a unit.
TEST(KernelVersions, DoTheWorkOfTheKernel) {
  const SimModelKernel kernel = Kernel(microseconds(40), 256);
  const auto work = [](std::uint32_t blocks, const BlockDemand& block) {
    return static_cast<double>(blocks) * static_cast<double>(block.time.count()) *
           block.use_permille;
  };
  const double own = work(kernel.blocks, kernel.block);
  for (const SimKernelVersion& version : VersionsOf(kernel)) {
    const double part = work(version.blocks, version.block) / own;
    EXPECT_GE(part, 1) << version.shorter << " " << version.narrower;
    EXPECT_LE(part, version.shorter == 1 ? 1.001 : 1.201) << version.shorter;
    EXPECT_EQ(version.block.threads * version.narrower, kernel.block.threads);
    EXPECT_LE(version.block.time * version.shorter, kernel.block.time * 1.2);
    EXPECT_GE(version.time, kernel.time);
  }
}

TEST(KernelVersions, HaveNoBlocksOfLessThanAMicrosecondOrAWarp) {
  const auto versions = VersionsOf(Kernel(microseconds(3), 64));
  EXPECT_THAT(versions, Each(Truly([](const SimKernelVersion& version) {
                return version.block.time >= microseconds(1) && version.block.threads >= 32;
              })));
  EXPECT_EQ(versions.size(), 4u) << "whole and half of the time, whole and half as wide";
  EXPECT_EQ(VersionsOf(Kernel(Nanoseconds(800), 0)).size(), 1u);
}

Nanoseconds TimeOf(std::uint32_t blocks, Nanoseconds block, Nanoseconds listed) {
  SimModel model;
  SimModelKernel& kernel = model.kernels.emplace_back();
  kernel.blocks = blocks;
  kernel.time = listed;
  kernel.block.time = block;
  kernel.block.threads = 1024;
  const auto device = *CreateSimDevice("gv100");
  return (*bench::LoadSimPlan(model, *device, /*versions=*/false))->plan.ops.front().cost.kernel;
}

// 80 units hold two blocks of 1,024 threads each.
TEST(SimPlan, AKernelTakesTheRoundsOfItsBlocksWhateverItsListSays) {
  EXPECT_EQ(TimeOf(161, microseconds(10), microseconds(10)), microseconds(20));
  EXPECT_EQ(TimeOf(160, microseconds(10), microseconds(90)), microseconds(10));
}

TEST(SimPlan, WhatAListRoundedIsKept) {
  EXPECT_EQ(TimeOf(3 * 160, Nanoseconds(3'333), Nanoseconds(10'001)), Nanoseconds(10'001));
}

}  // namespace
}  // namespace lagoon::sim_testing
