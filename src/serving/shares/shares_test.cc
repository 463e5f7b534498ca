// Shares of served models: a core on a CPU of two workers.

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "cluster/stored_surface.h"
#include "serving/testing/core_fixture.h"
#include "trace/recorder.h"

namespace lagoon {
namespace {

using namespace lagoon::testing;

class SharesTest : public CoreTest {
 protected:
  ModelShare ShareOf(const std::string& model) {
    const auto report = core_->shares()->ReadShares();
    EXPECT_TRUE(report) << report.error().message;
    for (const ModelShare& share : report->models) {
      if (share.model == model) return share;
    }
    ADD_FAILURE() << model << " is not listed";
    return {};
  }
};

TEST_F(SharesTest, FixedSharesBecomeUnits) {
  repository_.AddModel("a", SmallModel(), Parameter("lagoon.share", "50"));
  repository_.AddModel("b", SmallModel(), Parameter("lagoon.share", "50"));
  repository_.AddModel("free", SmallModel());
  Open("shares");
  EXPECT_EQ(ShareOf("a").units, (UnitRange{0, 1}));
  EXPECT_EQ(ShareOf("b").units, (UnitRange{1, 1}));
  EXPECT_FALSE(ShareOf("free").share);
  for (const char* model : {"a", "b", "free"}) {
    const Answer answer = Ask(SmallRequest(model));
    ASSERT_TRUE(answer) << answer.error().message;
  }
  EXPECT_EQ(StatisticsOf("a").share, 0.5);
  EXPECT_EQ(StatisticsOf("free").share, 0);
}

TEST_F(SharesTest, SharesThatAddUpToMoreThanTheDeviceAreRefusedAtTheStart) {
  repository_.AddModel("a", SmallModel(), Parameter("lagoon.share", "60"));
  repository_.AddModel("b", SmallModel(), Parameter("lagoon.share", "50"));
  CoreOptions options;
  options.repository = repository_.path();
  options.device.workers = 4;
  options.engine = "none";
  const auto core = OpenCore(options);
  ASSERT_FALSE(core);
  EXPECT_EQ(core.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(core.error().message.find("110"), std::string::npos) << core.error().message;
}

TEST_F(SharesTest, HostileParametersAreRefusedByName) {
  int number = 0;
  std::vector<std::string> names;
  for (const char* value : {"0", "-1", "101", "nan", "inf", "", "half", "50%"}) {
    names.push_back("m" + std::to_string(number++));
    repository_.AddModel(names.back(), SmallModel(), Parameter("lagoon.share", value));
  }
  for (const char* value : {"0", "-2", "nan", "1e9", ""}) {
    names.push_back("m" + std::to_string(number++));
    repository_.AddModel(names.back(), SmallModel(), Parameter("lagoon.weight", value));
  }
  repository_.AddModel("both", SmallModel(),
                       Parameter("lagoon.share", "auto") + Parameter("lagoon.weight", "2"));
  Open();
  for (const std::string& name : names) {
    EXPECT_NE(ReasonOf(name).find("it takes"), std::string::npos) << ReasonOf(name);
  }
  EXPECT_NE(ReasonOf("both").find("both set"), std::string::npos) << ReasonOf("both");
}

TEST_F(SharesTest, MovesWhileRequestsRunLoseNone) {
  repository_.AddModel("a", SmallModel(), Parameter("lagoon.share", "50"));
  repository_.AddModel("b", SmallModel(), Parameter("lagoon.share", "auto"));
  Open("shares");
  const Answer expected = Ask(SmallRequest("a"));
  ASSERT_TRUE(expected);
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0}, wrong{0};
  std::vector<std::jthread> clients;
  for (const char* model : {"a", "a", "b"}) {
    clients.emplace_back([&, model] {
      while (!stop.load()) {
        const Answer answer = Ask(SmallRequest(model));
        if (!answer || Floats(answer->outputs[0]) != Floats(expected->outputs[0])) ++wrong;
        ++answered;
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    const int before = answered.load();
    // Each model has one of two units; then b's share goes, and a has both.
    ASSERT_TRUE(core_->shares()->ResizeShare("a", "", {.units = 1, .part = {}}));
    while (answered.load() < before + 3) std::this_thread::yield();
    ASSERT_TRUE(core_->shares()->ResizeShare("b", "", {.units = {}, .part = 0.5 - 0.1 * (i % 3)}));
  }
  stop = true;
  clients.clear();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GE(answered.load(), 600);
  EXPECT_EQ(StatisticsOf("a").fail.count + StatisticsOf("b").fail.count, 0u);
}

TEST_F(SharesTest, ResizingAnUnknownModelOrTooMuchChangesNothing) {
  repository_.AddModel("a", SmallModel(), Parameter("lagoon.share", "50"));
  Open("shares");
  EXPECT_EQ(core_->shares()->ResizeShare("nobody", "", {.units = 1, .part = {}}).error().code,
            ErrorCode::kNotFound);
  const Status wrong = core_->shares()->ResizeShare("a", "", {.units = 3, .part = {}});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("'a'"), std::string::npos) << wrong.error().message;
  EXPECT_EQ(ShareOf("a").units.count, 1u);
}

TEST_F(SharesTest, AShareSetByHandOrByTheConfigurationCanBeTakenAway) {
  repository_.AddModel("a", SmallModel(), Parameter("lagoon.share", "50"));
  repository_.AddModel("b", SmallModel());
  Open("shares");
  ASSERT_TRUE(core_->shares()->ResizeShare("b", "", {.part = 0.5}));
  for (const char* model : {"a", "b"}) {
    EXPECT_EQ(ShareOf(model).units.count, 1u);
    ASSERT_TRUE(core_->shares()->ResizeShare(model, "", {.none = true}));
    EXPECT_FALSE(ShareOf(model).share);
    EXPECT_EQ(ShareOf(model).units.count, 0u);
    const Answer answer = Ask(SmallRequest(model));
    ASSERT_TRUE(answer) << answer.error().message;
  }
  ASSERT_TRUE(core_->shares()->ResizeShare("b", "", {.part = 1})) << "no share is left";
}

TEST_F(SharesTest, ATraceGetsEveryDecision) {
  TraceRecorder recorder;
  repository_.AddModel("a", SmallModel(), Parameter("lagoon.share", "50"));
  repository_.AddModel("free", SmallModel());
  CoreOptions options;
  options.repository = repository_.path();
  options.scheduler = "shares";
  options.device.workers = 2;
  options.engine = "none";
  options.trace = &recorder;
  auto core = OpenCore(options);
  ASSERT_TRUE(core) << core.error().message;
  ASSERT_TRUE((*core)->shares()->ResizeShare("a", "", {.units = 2, .part = {}}));
  core->reset();
  const auto notes = recorder.share_notes();
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0].model, "a");
  EXPECT_EQ(notes[0].from, 0);
  EXPECT_EQ(notes[0].to, 0.5);
  EXPECT_EQ(notes[0].units, (UnitRange{0, 1}));
  EXPECT_EQ(notes[1].from, 0.5);
  EXPECT_EQ(notes[1].to, 1);
  EXPECT_EQ(notes[1].units, (UnitRange{0, 2}));
  EXPECT_EQ(notes[1].why, "an operator or the placer of its fleet set it");
  EXPECT_GE(notes[1].at, notes[0].at);
}

// On four workers the surface has its knee at two.
TEST_F(SharesTest, TheKneeOfAStoredSurfaceIsTheFirstShare) {
  const std::string folder = ::testing::TempDir() + "lagoon-shares-test";
  std::filesystem::create_directories(folder);
  CoreOptions options;
  options.repository = repository_.path();
  options.device.workers = 4;
  options.engine = "none";
  options.share_surplus = false;
  options.profile.store = {folder, "test"};
  const DeviceInfo info = OpenDevice(options.device)->device->info();
  const std::string device = SurfaceDevice(info.name, info.description, info.units);
  for (const auto& [model, of] : {std::pair("known", device), {"moved", "another"}, {"new", ""}}) {
    repository_.AddModel(model, SmallModel(), Parameter("lagoon.share", "auto"));
    if (of.empty()) continue;
    const nlohmann::json surface = {
        {"model", model},
        {"device", of},
        {"source", "a test"},
        {"points", {{"rows", {1}}, {"shares", {0.25, 0.5, 1}}, {"latency_ms", {{40, 20, 19.6}}}}}};
    std::ofstream(SurfacePath(folder, model)) << surface;
  }
  auto core = OpenCore(options);
  ASSERT_TRUE(core) << core.error().message;
  core_ = *std::move(core);
  EXPECT_EQ(ShareOf("known").units.count, 2u);
  EXPECT_EQ(ShareOf("known").demand_from, DemandFrom::kSurface);
  for (const char* model : {"moved", "new"}) {
    EXPECT_EQ(ShareOf(model).units.count, 1u) << model;
    EXPECT_EQ(ShareOf(model).demand_from, DemandFrom::kDefault) << model;
  }
  std::filesystem::remove_all(folder);
}

// The kernels of the small model take less time than what surrounds them; those of the slow one
// take nearly all, as they are held back for long.
TEST_F(SharesTest, TheBottleneckIsNamed) {
  repository_.AddModel("small", SmallModel());
  AddHeld();
  Open();
  Bottleneck small = Bottleneck::kNone, slow = Bottleneck::kNone;
  const TimePoint until = Now() + std::chrono::minutes(1);
  while ((small == Bottleneck::kNone || slow == Bottleneck::kNone) && Now() < until) {
    InferRequest request = SmallRequest();
    request.arrival -= std::chrono::seconds(10);  // the edge took long to read it
    ASSERT_TRUE(Ask(std::move(request)));
    const TimePoint sent = Now();
    Sent running = SendRunning();
    const TimePoint runs = Now();
    while (Now() - runs < 10 * (runs - sent) + std::chrono::milliseconds(100)) {
      std::this_thread::yield();
    }
    LetGo();
    ASSERT_TRUE(running.answer.get());
    small = ShareOf("small").load.bottleneck;
    slow = ShareOf("slow").load.bottleneck;
  }
  EXPECT_EQ(small, Bottleneck::kHost);
  EXPECT_EQ(slow, Bottleneck::kDevice);
}

}  // namespace
}  // namespace lagoon
