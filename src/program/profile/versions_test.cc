#include "program/profile/versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "program/compile.h"
#include "program/profile/profile_file.h"
#include "program/testing/run_graph.h"

namespace lagoon {
namespace {

using namespace std::chrono_literals;
using testing::TestGraph;

OpVersion Version(std::string name, std::int64_t kernel_us, std::int64_t block_us,
                  std::uint32_t blocks, std::size_t scratch = 0) {
  OpVersion version;
  version.name = std::move(name);
  version.blocks = blocks;
  version.scratch_bytes = scratch;
  version.cost = {std::chrono::microseconds(kernel_us), std::chrono::microseconds(block_us)};
  return version;
}

std::vector<std::string> NamesOf(const PlanOp& op) {
  std::vector<std::string> names;
  for (const OpVersion& version : op.versions) names.push_back(version.name);
  return names;
}

TEST(Versions, DominanceNeedsAllSixRespects) {
  const VersionTraits base = TraitsOf(Version("a", 100, 10, 20, 512), 2);
  EXPECT_FALSE(Dominates(base, base));
  VersionTraits worse = base;
  worse.kernel += 1ns;
  EXPECT_TRUE(Dominates(base, worse));
  for (int respect = 0; respect < 5; ++respect) {
    VersionTraits mixed = worse;
    if (respect == 0) mixed.block -= 1ns;
    if (respect == 1) mixed.occupancy -= 0.1;
    if (respect == 2) mixed.scratch_bytes -= 1;
    if (respect == 3) mixed.threads -= 1;
    if (respect == 4) mixed.blocks -= 1;
    EXPECT_FALSE(Dominates(base, mixed)) << "respect " << respect;
  }
}

TEST(Versions, OccupancyIsTheShareOfUnitsKeptBusy) {
  EXPECT_DOUBLE_EQ(TraitsOf(Version("a", 1, 1, 1), 2).occupancy, 0.5);
  EXPECT_DOUBLE_EQ(TraitsOf(Version("a", 1, 1, 2), 2).occupancy, 1.0);
  EXPECT_DOUBLE_EQ(TraitsOf(Version("a", 1, 1, 3), 2).occupancy, 0.75);
}

TEST(Versions, PruningDropsWhatIsDominatedAndKeepsTheOneInUse) {
  PlanOp op;
  op.versions = {Version("fast", 100, 50, 4), Version("worse", 120, 60, 4),
                 Version("short", 130, 10, 26), Version("used", 140, 60, 4)};
  op.version = 3;
  PruneVersions(op, 2, 10);
  EXPECT_EQ(NamesOf(op), (std::vector<std::string>{"fast", "short", "used"}));
  EXPECT_EQ(op.version, 2u);
}

TEST(Versions, DropsWhatWasNotMeasuredButForWhatIsInUse) {
  Plan plan;
  plan.ops.resize(4);
  plan.ops[0].versions = {Version("guess", 0, 0, 4), Version("used", 0, 0, 8),
                          Version("measured", 100, 50, 4)};
  plan.ops[0].version = 1;
  plan.ops[1].versions = {Version("guess", 0, 0, 4), Version("used", 0, 0, 8)};
  plan.ops[1].version = 1;
  plan.ops[3].versions = {Version("tuned", 100, 50, 4)};
  DropUnmeasuredVersions(plan);
  EXPECT_EQ(NamesOf(plan.ops[0]), (std::vector<std::string>{"used", "measured"}));
  EXPECT_EQ(plan.ops[0].version, 0u);
  EXPECT_TRUE(plan.ops[1].versions.empty());  // the op itself is its only version
  EXPECT_EQ(plan.ops[1].version, 0u);
  EXPECT_TRUE(plan.ops[2].versions.empty());
  EXPECT_EQ(NamesOf(plan.ops[3]), (std::vector<std::string>{"tuned"}));
}

// Its only version left says which of the versions of another plan to use.
TEST(Versions, ATunedChoiceReachesAnotherShapeAfterTheOthersAreDropped) {
  Plan tuned, other;
  PlanOp& op = tuned.ops.emplace_back();
  op.name = "conv";
  op.versions = {Version("coarse", 0, 0, 2), Version("fine", 100, 50, 4)};
  UseVersion(op, 1);
  DropUnmeasuredVersions(tuned);
  PlanOp& scaled = other.ops.emplace_back();
  scaled.name = "conv";
  scaled.versions = {Version("coarse", 0, 0, 4), Version("fine", 0, 0, 8)};
  scaled.blocks = 4;
  ScaleProfile(tuned, other, 1);
  EXPECT_EQ(NamesOf(scaled), (std::vector<std::string>{"fine"}));
  EXPECT_EQ(scaled.blocks, 8u);
  EXPECT_EQ(scaled.cost.kernel, 100us);
}

TEST(Versions, APlanWithoutMeasuredVersionsGivesCostsOnly) {
  Plan plain, other;
  PlanOp& op = plain.ops.emplace_back();
  op.name = "conv";
  op.cost = {100us, 50us};
  op.versions = {Version("coarse", 0, 0, 2), Version("fine", 0, 0, 4)};
  DropUnmeasuredVersions(plain);
  PlanOp& scaled = other.ops.emplace_back();
  scaled.name = "conv";
  scaled.versions = {Version("coarse", 0, 0, 4), Version("fine", 0, 0, 8)};
  UseVersion(scaled, 1);
  ScaleProfile(plain, other, 1);
  EXPECT_EQ(scaled.blocks, 8u);  // its own choice
  EXPECT_EQ(scaled.cost.kernel, 100us);
}

TEST(Versions, PruningThinsOutNeighboursFirst) {
  PlanOp op;
  for (int i = 0; i < 6; ++i) {  // each slower, with shorter blocks: none dominates
    op.versions.push_back(Version("v" + std::to_string(i), 100 + i, 64 >> i, 4u << i));
  }
  op.versions.push_back(Version("near_v1", 103, 31, 9));
  PruneVersions(op, 2, 6);
  EXPECT_EQ(NamesOf(op), (std::vector<std::string>{"v0", "v1", "v2", "v3", "v4", "v5"}));
  PruneVersions(op, 2, 1);
  EXPECT_EQ(NamesOf(op), (std::vector<std::string>{"v0"}));
}

TestGraph Network() {
  TestGraph g;
  ValueId x = g.Conv(g.Input({1, 3, 48, 48}), 32, {}, 1, true, testing::FusedRelu());
  x = g.Conv(x, 64, {3, 2, {1, 1, 1, 1}}, 1, true, testing::FusedRelu());
  g.Output(g.Op("GlobalAveragePool", {g.Conv(x, 48, {1, 1, {0, 0, 0, 0}})}));
  return g;
}

TEST(Versions, HeavyOpsHaveAtLeastTwentyAndAllComputeTheSame) {
  const TestGraph g = Network();
  const auto device = testing::MakeDevice(2);
  const auto loaded = testing::Compile(g.graph(), *device);
  ASSERT_NE(loaded, nullptr);
  std::size_t most = 0;
  for (const PlanOp& op : loaded->plan.ops) {
    if (op.kernel_name != "conv2d" || op.flops < 10e6) continue;
    EXPECT_GE(op.versions.size(), 20u) << op.name;
    most = std::max(most, op.versions.size());
    std::set<std::string> names;
    for (const OpVersion& version : op.versions) names.insert(version.name);
    EXPECT_EQ(names.size(), op.versions.size()) << "names must differ";
  }
  ASSERT_GE(most, 20u);
  std::vector<std::vector<float>> first;
  for (std::uint32_t round = 0; round < most; ++round) {
    for (PlanOp& op : loaded->plan.ops) {
      if (round < op.versions.size()) UseVersion(op, round);
    }
    auto instance = Instance::Create(loaded, *device);
    ASSERT_TRUE(instance);
    const auto outputs = testing::RunOn(**instance, *device, g);
    testing::ExpectOutputs(g, outputs);
    if (round == 0) first = outputs;
    EXPECT_EQ(outputs, first) << "round " << round;  // equal bits: sums keep their order
  }
}

TEST(Versions, ProfilingKeepsFewAndPutsOneWithShortBlocksIntoUse) {
  const TestGraph g = Network();
  const auto device = testing::MakeDevice(2);
  const auto loaded = testing::Compile(g.graph(), *device);
  ASSERT_NE(loaded, nullptr);
  std::vector<int> steps;
  VersionOptions options;
  options.runs = 2;
  options.keep = 6;
  options.progress = [&](int done, int of) {
    steps.push_back(done);
    EXPECT_LE(done, of);
  };
  const Status status = ProfileVersions(*loaded, *device, options);
  ASSERT_TRUE(status) << status.error().message;
  EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
  EXPECT_GT(loaded->plan.standalone.count(), 0);
  for (const PlanOp& op : loaded->plan.ops) {
    if (op.versions.empty()) continue;
    EXPECT_LE(op.versions.size(), 6u);
    EXPECT_EQ(op.blocks, op.versions[op.version].blocks);
    for (const OpVersion& version : op.versions) EXPECT_GT(version.cost.kernel.count(), 0);
  }
  auto instance = Instance::Create(loaded, *device);
  ASSERT_TRUE(instance);
  testing::ExpectOutputs(g, testing::RunOn(**instance, *device, g));
}

class ProfileFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "lagoon_profile_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    store_ = {pattern, "build 1"};
    loaded_ = testing::Compile(graph_.graph(), *device_);
    ASSERT_NE(loaded_, nullptr);
    key_ = ProfileKey(loaded_->plan, device_->info(), store_.build);
  }
  void TearDown() override {
    std::error_code ignored;
    std::filesystem::remove_all(store_.folder, ignored);
  }
  std::filesystem::path OnlyFile() const {
    return std::filesystem::directory_iterator(store_.folder)->path();
  }

  TestGraph graph_ = Network();
  std::unique_ptr<Device> device_ = testing::MakeDevice(2);
  std::shared_ptr<LoadedPlan> loaded_;
  ProfileStore store_;
  std::string key_;
};

TEST_F(ProfileFile, BringsBackCostsAndVersions) {
  VersionOptions options;
  options.runs = 1;
  ASSERT_TRUE(ProfileVersions(*loaded_, *device_, options));
  ASSERT_TRUE(SaveProfile(store_, key_, loaded_->plan, /*tuned=*/true));

  const auto again = testing::Compile(graph_.graph(), *device_);
  ASSERT_EQ(ProfileKey(again->plan, device_->info(), store_.build), key_);
  ASSERT_EQ(LoadProfile(store_, key_, again->plan), ProfileFound::kTuned);
  EXPECT_EQ(again->plan.standalone, loaded_->plan.standalone);
  for (std::size_t i = 0; i < again->plan.ops.size(); ++i) {
    const PlanOp& op = again->plan.ops[i];
    const PlanOp& expected = loaded_->plan.ops[i];
    EXPECT_EQ(op.cost.kernel, expected.cost.kernel);
    EXPECT_EQ(op.blocks, expected.blocks);
    EXPECT_EQ(NamesOf(op), NamesOf(expected));
    EXPECT_EQ(op.version, expected.version);
  }
  auto instance = Instance::Create(again, *device_);
  ASSERT_TRUE(instance);
  testing::ExpectOutputs(graph_, testing::RunOn(**instance, *device_, graph_));
}

TEST_F(ProfileFile, IsForOneBuildOneDeviceAndOneStructure) {
  EXPECT_NE(ProfileKey(loaded_->plan, device_->info(), "build 2"), key_);
  for (const CpuLevel level : {CpuLevel::kPortable, CpuLevel::kAvx2, CpuLevel::kAvx512,
                               CpuLevel::kAvx512Bf16, CpuLevel::kAmx}) {
    const std::string of_level = ProfileKey(loaded_->plan, device_->info(), store_.build, level);
    EXPECT_EQ(of_level == key_, level == ActiveCpuLevel());
    EXPECT_TRUE(of_level.starts_with(std::string(NameOf(level)) + "-")) << of_level;
  }
  EXPECT_NE(ProfileKey(loaded_->plan, testing::MakeDevice(1)->info(), store_.build), key_);
  TestGraph other;
  other.Output(other.Conv(other.Input({1, 3, 32, 32}), 64, {}));
  const auto plan = testing::Compile(other.graph(), *device_);
  EXPECT_NE(ProfileKey(plan->plan, device_->info(), store_.build), key_);
  ASSERT_TRUE(SaveProfile(store_, key_, loaded_->plan, false));
  EXPECT_EQ(LoadProfile(store_, "0000000000000000", loaded_->plan), ProfileFound::kNone);
  EXPECT_EQ(LoadProfile(store_, key_, loaded_->plan), ProfileFound::kPlain);
}

TEST_F(ProfileFile, AProvisionalProfileCountsOnlyBesideABusyServer) {
  ProfileStore beside = store_;
  beside.provisional = true;
  ASSERT_TRUE(SaveProfile(beside, key_, loaded_->plan, false));
  EXPECT_EQ(LoadProfile(beside, key_, loaded_->plan), ProfileFound::kPlain);
  EXPECT_EQ(LoadProfile(store_, key_, loaded_->plan), ProfileFound::kNone);
  ASSERT_TRUE(SaveProfile(store_, key_, loaded_->plan, false));
  EXPECT_EQ(LoadProfile(store_, key_, loaded_->plan), ProfileFound::kPlain);
  EXPECT_EQ(LoadProfile(beside, key_, loaded_->plan), ProfileFound::kPlain);
}

TEST_F(ProfileFile, ABrokenFileChangesNothing) {
  ASSERT_TRUE(SaveProfile(store_, key_, loaded_->plan, true));
  std::string text;
  std::getline(std::ifstream(OnlyFile()), text, '\0');
  const auto op = std::find_if(loaded_->plan.ops.begin(), loaded_->plan.ops.end(),
                               [](const PlanOp& any) { return !any.versions.empty(); });
  ASSERT_NE(op, loaded_->plan.ops.end());
  const std::size_t blocks = op->blocks;
  const std::string version = op->versions.back().name;
  const std::size_t at = text.find('"' + version + '"');
  ASSERT_NE(at, std::string::npos);
  for (const std::string& broken :
       {std::string(), std::string("{}"), text.substr(0, text.size() / 2),
        std::string(text).replace(at, version.size() + 2, "\"no such version\"")}) {
    std::ofstream(OnlyFile()) << broken;
    EXPECT_EQ(LoadProfile(store_, key_, loaded_->plan), ProfileFound::kNone);
    EXPECT_EQ(op->blocks, blocks);
  }
}

TEST_F(ProfileFile, BringsBackParts) {
  Plan& plan = loaded_->plan;
  const auto ops = static_cast<std::uint32_t>(plan.ops.size());
  plan.part_ends = {1, ops};
  ASSERT_TRUE(SaveProfile(store_, key_, plan, false));
  plan.part_ends.clear();
  ASSERT_EQ(LoadProfile(store_, key_, plan), ProfileFound::kPlain);
  EXPECT_EQ(plan.part_ends, (std::vector<std::uint32_t>{1, ops}));
  plan.part_ends.clear();
  ASSERT_TRUE(SaveProfile(store_, key_, plan, false));
  plan.part_ends = {2, ops};
  ASSERT_EQ(LoadProfile(store_, key_, plan), ProfileFound::kPlain);
  EXPECT_TRUE(plan.part_ends.empty());
}

// As from another machine, where the plan has other kernels.
TEST_F(ProfileFile, PartsThatDoNotFitThePlanChangeNothing) {
  Plan& plan = loaded_->plan;
  plan.part_ends = {1, static_cast<std::uint32_t>(plan.ops.size())};
  ASSERT_TRUE(SaveProfile(store_, key_, plan, false));
  std::string text;
  std::getline(std::ifstream(OnlyFile()), text, '\0');
  const std::size_t at = text.find("\"part_ends\"");
  ASSERT_NE(at, std::string::npos);
  const std::size_t end = text.find(']', at) + 1;
  const std::string ops = std::to_string(plan.ops.size());
  for (const std::string& ends :
       {"[" + ops + "0]", std::string("[1, 2]"), "[-1, " + ops + "]", "[0, " + ops + "]",
        "[2, 1, " + ops + "]", "[1, 1, " + ops + "]", "[4294967297, " + ops + "]",
        std::string("[\"one\"]"), std::string("7"), std::string("[]")}) {
    std::ofstream(OnlyFile()) << std::string(text).replace(at, end - at, "\"part_ends\": " + ends);
    plan.part_ends = {3};
    EXPECT_EQ(LoadProfile(store_, key_, plan), ProfileFound::kNone) << ends;
    EXPECT_EQ(plan.part_ends, std::vector<std::uint32_t>{3}) << ends;
  }
}

TEST_F(ProfileFile, AFolderThatCannotBeWrittenIsNamed) {
  store_.folder = "/proc/lagoon";
  const Status status = SaveProfile(store_, key_, loaded_->plan, true);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, ::testing::HasSubstr("/proc/lagoon"));
}

TEST_F(ProfileFile, WithoutAFolderNothingIsKept) {
  store_.folder.clear();
  EXPECT_TRUE(SaveProfile(store_, key_, loaded_->plan, true));
  EXPECT_EQ(LoadProfile(store_, key_, loaded_->plan), ProfileFound::kNone);
}

}  // namespace
}  // namespace lagoon
