// A fleet of CPU devices of one worker each, over a repository.

#include "serving/fleet/open_fleet.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "serving/testing/core_fixture.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;
using ::testing::HasSubstr;

TEST(ParseFleet, ReadsDevices) {
  DeviceChoice base;
  base.cuda_driver = "libother.so";
  const auto devices = ParseFleet("cpu:1,cpu,cuda:0,cuda:1", base);
  ASSERT_TRUE(devices) << devices.error().message;
  ASSERT_EQ(devices->devices.size(), 4u);
  EXPECT_EQ(devices->devices[0].name, "cpu");
  EXPECT_EQ(devices->devices[0].workers, 1u);
  EXPECT_EQ(devices->devices[1].workers, 0u);
  EXPECT_EQ(devices->devices[3].name, "cuda:1");
  EXPECT_EQ(devices->devices[3].cuda_driver, "libother.so");
}

TEST(ParseFleet, BadWordsAreRefusedByName) {
  for (const char* words :
       {"", "cpu:1", "cpu:1,", ",cpu:1", "cpu:0,cpu:1", "cpu:-1,cpu:1", "cpu:1x,cpu:1",
        "cpu:99999,cpu:1", "gpu:0,cpu:1", "cuda:0,cuda:0", "cuda:,cpu", "cpu:1;cpu:1"}) {
    const auto devices = ParseFleet(words, {});
    ASSERT_FALSE(devices) << words;
    EXPECT_EQ(devices.error().code, ErrorCode::kInvalidArgument) << words;
  }
  EXPECT_THAT(ParseFleet("cpu:1,gpu:0", {}).error().message, HasSubstr("'gpu:0'"));
  std::string many = "cpu:1";
  for (int i = 0; i < 64; ++i) many += ",cpu:1";
  EXPECT_FALSE(ParseFleet(many, {}));
}

/// All replicas of all models on one member after the other, as fast as decisions come.
class Restless final : public Placer {
 public:
  std::string_view name() const override { return "restless"; }
  Assignment Place(const PlacementView& view) override {
    Assignment placed;
    const std::size_t gpu = calls_++ / 2 % view.gpus.size();  // two decisions agree
    for (std::size_t model = 0; model < view.models.size(); ++model) {
      placed.replicas.push_back({model, (gpu + model) % view.gpus.size(), 1, 1, 1});
    }
    return placed;
  }

 private:
  std::size_t calls_ = 0;
};

/// All models on the first member, with these granules, by model.
class Dividing final : public Placer {
 public:
  explicit Dividing(std::vector<std::uint32_t> granules) : granules_(std::move(granules)) {}
  std::string_view name() const override { return "dividing"; }
  Assignment Place(const PlacementView& view) override {
    Assignment placed;
    for (std::size_t model = 0; model < view.models.size(); ++model) {
      placed.replicas.push_back({model, 0, granules_.at(model), 1, 1});
    }
    return placed;
  }

 private:
  const std::vector<std::uint32_t> granules_;
};

class OpenFleetTest : public CoreTest {
 protected:
  void OpenWith(const std::string& devices, FleetOptions fleet) {
    CoreOptions options;
    options.repository = repository_.path();
    options.profile.runs = 1;
    options.engine = "none";
    auto opened = OpenFleet(options, *ParseFleet(devices, {}), std::move(fleet));
    ASSERT_TRUE(opened) << opened.error().message;
    fleet_ = opened->get();
    core_ = *std::move(opened);
  }
  FleetCore* fleet_ = nullptr;
};

TEST_F(OpenFleetTest, ModelsAreSpreadOverTheDevices) {
  for (const char* model : {"a", "b", "c", "d"}) repository_.AddModel(model, SmallModel());
  repository_.AddModel("broken", SmallModel(), "nonsense");
  OpenWith("cpu:1,cpu:1", {});
  const FleetReport report = fleet_->ReadFleet();
  ASSERT_EQ(report.devices.size(), 2u);
  EXPECT_EQ(report.devices[0].name, "0/cpu:1");
  EXPECT_EQ(report.replicas.size(), 4u);
  for (std::size_t device = 0; device < 2; ++device) {
    EXPECT_GE(std::ranges::count(report.replicas, device, &FleetReplicaReport::device), 1);
  }
  for (const char* model : {"a", "b", "c", "d"}) {
    const Answer answer = Ask(SmallRequest(model));
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(Floats(answer->outputs.front()).front(), 5);
  }
  EXPECT_EQ(CodeOf(Ask(SmallRequest("broken"))), ErrorCode::kUnavailable);
  EXPECT_THAT(ReasonOf("broken"), HasSubstr("nonsense"));
  EXPECT_EQ(CodeOf(Ask(SmallRequest("absent"))), ErrorCode::kNotFound);
}

TEST_F(OpenFleetTest, NoRequestFailsWhileModelsAreSwappedUnderLoad) {
  repository_.AddModel("a", SmallModel(), kRealTime);
  repository_.AddModel("b", SmallModel());
  FleetOptions options;
  options.placer = "restless";
  options.make_placer = [](std::string_view) -> Result<std::unique_ptr<Placer>> {
    return std::make_unique<Restless>();
  };
  options.rules = {.period = std::chrono::milliseconds(5), .hold_down = Nanoseconds(0)};
  options.rules.limit = std::chrono::minutes(1);
  OpenWith("cpu:1,cpu:1", std::move(options));
  std::atomic<bool> stop{false};
  std::atomic<int> failed{0};
  std::vector<std::thread> clients;
  for (const char* model : {"a", "b"}) {
    clients.emplace_back([&, model] {
      while (!stop) failed += !Ask(SmallRequest(model)).has_value();
    });
  }
  while (fleet_->ReadFleet().unloads < 12) std::this_thread::yield();
  stop = true;
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(failed.load(), 0);
  EXPECT_GE(fleet_->ReadFleet().loads, 12u);
  EXPECT_EQ(fleet_->ReadFleet().failed_loads, 0u);
}

TEST_F(OpenFleetTest, SharesOfADeviceFollowThePlacer) {
  for (const char* model : {"a", "b", "c"}) {
    repository_.AddModel(model, SmallModel(), Parameter("lagoon.share", "auto"));
  }
  FleetOptions options;
  options.placer = "first";
  options.make_placer = [](std::string_view name) -> Result<std::unique_ptr<Placer>> {
    return std::make_unique<Dividing>(name == "first" ? std::vector<std::uint32_t>{50, 25, 25}
                                                      : std::vector<std::uint32_t>{25, 50, 25});
  };
  options.rules = {.period = std::chrono::milliseconds(5), .hold_down = Nanoseconds(0)};
  options.rules.limit = std::chrono::minutes(1);
  OpenWith("cpu:4,cpu:1", std::move(options));
  const auto await_units = [&](const std::map<std::string, std::uint32_t>& wanted) {
    std::map<std::string, std::uint32_t> units;
    while (units != wanted) {
      std::this_thread::yield();
      units.clear();
      const SharesReport report = *fleet_->ReadShares();
      for (const ModelShare& row : report.models) {
        if (row.fixed) units[row.model] = row.units.count;
      }
    }
  };
  await_units({{"a", 2}, {"b", 1}, {"c", 1}});
  ASSERT_TRUE(Ask(SmallRequest("a")));
  ASSERT_TRUE(fleet_->SetPlacer("second"));
  await_units({{"a", 1}, {"b", 2}, {"c", 1}});
  ASSERT_TRUE(Ask(SmallRequest("b")));
}

TEST_F(OpenFleetTest, ADeviceThatDoesNotOpenIsNamed) {
  repository_.AddModel("a", SmallModel());
  CoreOptions options;
  options.repository = repository_.path();
  DeviceChoice gpu;
  gpu.name = "cuda:0";
  gpu.cuda_driver = "/no/such/driver.so";
  DeviceChoice cpu;
  cpu.workers = 1;
  const auto opened = OpenFleet(options, {.devices = {cpu, gpu}}, {});
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message, HasSubstr("1/cuda:0"));
}

}  // namespace
}  // namespace lagoon
