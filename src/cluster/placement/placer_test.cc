#include "cluster/placement/placer.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/random.h"
#include "cluster/placement/registry.h"
#include "cluster/placement/testing/forecast_assignment.h"
#include "cluster/placement/testing/test_fleet.h"

namespace lagoon {
namespace {

using testing::ForecastAssignment;
using testing::TestFleet;

std::unique_ptr<Placer> Make(const std::string& name) {
  auto placer = MakePlacer(name);
  EXPECT_TRUE(placer.has_value());
  return *std::move(placer);
}

TEST(MakePlacer, AnUnknownNameIsAnErrorWithTheList) {
  const auto placer = MakePlacer("best");
  ASSERT_FALSE(placer.has_value());
  EXPECT_EQ(placer.error().code, ErrorCode::kNotFound);
  EXPECT_NE(placer.error().message.find("'best'"), std::string::npos);
  EXPECT_NE(placer.error().message.find("lagoon, inss, inss-ni"), std::string::npos);
}

TEST(LagoonPlacer, AModelTooLargeForOneGpuGetsReplicas) {
  TestFleet fleet(4);
  // A batch of 32 on a whole GPU takes 48.75 ms: 656 rows per second.
  fleet.Add(10, 1300, 150);
  const Assignment assignment = Make("lagoon")->Place(fleet.view);
  EXPECT_GE(assignment.replicas.size(), 3u);
  EXPECT_LT(ForecastAssignment(fleet.view, assignment).worst_violations, 0.02);
}

TEST(LagoonPlacer, StaysWhereItIsAsLongAsAllIsWell) {
  TestFleet fleet(3);
  for (int i = 0; i < 6; ++i) fleet.Add(3 + i, 40, 120);
  const auto placer = Make("lagoon");
  fleet.view.current = placer->Place(fleet.view);
  Random random(1);
  for (int decision = 0; decision < 20; ++decision) {
    for (ModelView& model : fleet.view.models) model.rate = 40 * random.Uniform(0.95, 1.05);
    const Assignment next = placer->Place(fleet.view);
    EXPECT_EQ(PlacesOf(fleet.view.current), PlacesOf(next)) << decision;
    fleet.view.current = next;
  }
}

TEST(LagoonPlacer, MovesAwayFromAnOverload) {
  TestFleet fleet(2);
  for (int i = 0; i < 4; ++i) fleet.Add(4, 60, 80);
  // All on one GPU, and the rates have risen.
  for (std::size_t i = 0; i < 4; ++i) {
    fleet.view.current.replicas.push_back({i, 0, 12, 8, 1});
    fleet.view.models[i].rate = 300;
  }
  ASSERT_GT(ForecastAssignment(fleet.view, fleet.view.current).worst_violations, 0.1);
  const Assignment next = Make("lagoon")->Place(fleet.view);
  EXPECT_LT(ForecastAssignment(fleet.view, next).worst_violations, 0.01);
  EXPECT_LT(ForecastAssignment(fleet.view, next).lost,
            ForecastAssignment(fleet.view, fleet.view.current).lost);
}

TEST(LagoonPlacer, KeepsApartWhatInterferes) {
  // Two models load the memory and suffer from it, two do neither. Any two fill a GPU.
  TestFleet fleet(2);
  fleet.Add(5, 220, 60, 0.8);
  fleet.Add(5, 220, 60, 0.8);
  fleet.Add(5, 220, 60, 0.0);
  fleet.Add(5, 220, 60, 0.0);
  const Assignment assignment = Make("lagoon")->Place(fleet.view);
  const double lost = ForecastAssignment(fleet.view, assignment).lost;
  // No other pairing loses less.
  for (const auto& [a, b] : {std::pair<std::size_t, std::size_t>{0, 1}, {0, 2}, {0, 3}}) {
    Assignment other = assignment;
    for (PlacedReplica& replica : other.replicas) {
      replica.gpu = replica.model == a || replica.model == b ? 0 : 1;
      replica.granules = 25;
    }
    EXPECT_LE(lost, ForecastAssignment(fleet.view, other).lost * 1.01 + 1e-6) << a << b;
  }
}

TEST(LagoonPlacer, WorksWithinItsBudgetOfEvaluationsOnManyGpus) {
  TestFleet fleet(64);
  Random random(3);
  for (int i = 0; i < 160; ++i) {
    fleet.Add(random.Uniform(1, 8), random.Uniform(50, 250), random.Uniform(30, 90), 0.2);
  }
  const Assignment assignment = Make("lagoon")->Place(fleet.view);
  EXPECT_TRUE(CheckAssignment(fleet.view, assignment).has_value());
  EXPECT_TRUE(assignment.refused.empty());
}

TEST(CheckAssignment, NamesWhatIsWrong) {
  TestFleet fleet(2);
  fleet.Add(4, 100, 80);
  fleet.Add(4, 100, 80);
  const PlacedReplica good{0, 0, 25, 8, 1}, other{1, 0, 25, 8, 1};
  ASSERT_TRUE(CheckAssignment(fleet.view, {{good, other}, {}}).has_value());
  struct Case {
    Assignment assignment;
    const char* message;
  };
  const auto with = [&](auto change) {
    PlacedReplica replica = good;
    change(replica);
    return Assignment{{replica, other}, {}};
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<Case> cases = {
      {{{good}, {}}, "'model1' is not refused, and its replicas get 0"},
      {{{good, other}, {{1, "x"}}}, "'model1' is refused, and its replicas get 1"},
      {{{good, other, other}, {}}, "'model1' has two replicas on GPU 0"},
      {{{good, other}, {{7, "x"}}}, "model 7 is refused"},
      {with([](auto& r) { r.granules = 26; }), "GPU 0: the shares are 51 granules of 50"},
      {with([](auto& r) { r.granules = 0; }), "'model0' on GPU 0: granules is 0"},
      {with([](auto& r) { r.granules = 51; }), "granules is 51"},
      {with([](auto& r) { r.rows = 33; }), "rows is 33"},
      {with([](auto& r) { r.rows = 0; }), "rows is 0"},
      {with([](auto& r) { r.fraction = 0; }), "fraction is 0"},
      {with([](auto& r) { r.fraction = kNan; }), "fraction is nan"},
      {with([](auto& r) { r.fraction = 0.5; }), "its replicas get 0.5"},
      {with([](auto& r) { r.gpu = 2; }), "on GPU 2; there are 2 models and 2 GPUs"},
  };
  for (const Case& c : cases) {
    const Status checked = CheckAssignment(fleet.view, c.assignment);
    ASSERT_FALSE(checked.has_value()) << c.message;
    EXPECT_NE(checked.error().message.find(c.message), std::string::npos)
        << checked.error().message;
  }
  fleet.view.models[0].memory_bytes = 39'500'000'000;
  const Status memory = CheckAssignment(fleet.view, {{good, other}, {}});
  ASSERT_FALSE(memory.has_value());
  EXPECT_EQ(memory.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(memory.error().message.find("bytes of 40000000000"), std::string::npos);
}

TEST(CheckView, NamesWhatIsWrong) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const auto message = [](auto change) {
    TestFleet fleet(1);
    fleet.Add(4, 100, 80);
    change(fleet.view);
    const Status checked = CheckView(fleet.view);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(message([](auto&) {}), "");
  EXPECT_NE(message([](auto& v) { v.models[0].rate = kNan; }).find("'model0': rate is nan"),
            std::string::npos);
  EXPECT_NE(message([](auto& v) { v.models[0].slo = Nanoseconds(0); }).find("slo in ms is 0"),
            std::string::npos);
  for (const double slowdown : {0.0, -1.0, kNan}) {
    EXPECT_NE(message([&](auto& v) { v.models[0].slowdown = slowdown; }).find("slowdown is "),
              std::string::npos);
  }
  EXPECT_NE(message([](auto& v) { v.models[0].measured_ms = kNan; }).find("measured_ms is nan"),
            std::string::npos);
  EXPECT_NE(message([](auto& v) { v.models[0].latency = nullptr; }).find("no latency model"),
            std::string::npos);
  EXPECT_NE(message([](auto& v) { v.gpus[0].granules = 0; }).find("GPU 0: granules is 0"),
            std::string::npos);
  EXPECT_NE(message([](auto& v) { v.gpus.clear(); }).find("number of GPUs is 0"),
            std::string::npos);
}

}  // namespace
}  // namespace lagoon
