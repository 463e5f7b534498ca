// A placer's shares and limits of batches reach other servers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "server/remote/testing/fleet_of_servers.h"

namespace lagoon {
namespace {

using Loaded = std::set<std::string>;

/// Each model on one member, in turns, with the granules and rows that the test says.
class FixedPlacer final : public Placer {
 public:
  struct Wishes {
    std::atomic<std::uint32_t> granules{60};
    std::atomic<std::int64_t> rows{3};
    std::atomic<bool> together{false};            // all on the first member
    mutable std::atomic<double> four_rows_ms{0};  // as the last view has them, of the first model
  };
  FixedPlacer(const Wishes& wishes, bool tunes) : wishes_(wishes), tunes_(tunes) {}
  std::string_view name() const override { return "fixed"; }
  bool DecidesShares() const override { return !tunes_; }
  Assignment Place(const PlacementView& view) override {
    Assignment placed;
    if (!view.models.empty()) wishes_.four_rows_ms = view.models[0].latency->AloneMs(4, 1);
    for (std::size_t i = 0; i < view.models.size() && !view.gpus.empty(); ++i) {
      placed.replicas.push_back(
          {.model = i,
           .gpu = wishes_.together ? 0 : i % view.gpus.size(),
           .granules = wishes_.granules,
           .rows = std::min<std::int64_t>(wishes_.rows, view.models[i].most_rows)});
    }
    return placed;
  }

 private:
  const Wishes& wishes_;
  const bool tunes_;
};

class SharesOfServersTest : public FleetOfServersTest {
 protected:
  SharesOfServersTest() {
    for (Placed* const member : {&one_, &two_}) member->core.SetShareOfModels("auto");
  }
  void OpenPlaced() {
    fleet_ = MakeFleet({{"m", 10}, {"n", 10}}, version_, [this](std::string_view) {
      return Result<std::unique_ptr<Placer>>(std::make_unique<FixedPlacer>(wishes_, tunes_));
    });
    ASSERT_NE(fleet_, nullptr);
    ASSERT_TRUE(fleet_->Join({"one", one_.address, 100}));
    ASSERT_TRUE(fleet_->Join({"two", two_.address, 100}));
    ASSERT_TRUE(Eventually([&] { return one_.core.Loaded() == Loaded{"m"}; }));
    ASSERT_TRUE(Eventually([&] { return two_.core.Loaded() == Loaded{"n"}; }));
  }
  static bool Has(const Placed& member, const std::string& model, double share) {
    return Eventually([&] { return member.core.ShareOf(model) == share; });
  }

  FixedPlacer::Wishes wishes_;
  std::atomic<bool> tunes_{false};  // of the next placer: the members tune the shares
  Placed one_{Loaded{}}, two_{Loaded{}};
};

TEST_F(SharesOfServersTest, BothMembersGetTheSharesOfThePlacer) {
  OpenPlaced();
  EXPECT_TRUE(Has(one_, "m", 0.6));
  EXPECT_TRUE(Has(two_, "n", 0.6));
  wishes_.granules = 25;
  EXPECT_TRUE(Has(one_, "m", 0.25));
  EXPECT_TRUE(Has(two_, "n", 0.25));
  EXPECT_EQ(one_.core.CeilingOf("m"), 0) << "nothing was measured";
}

// The members measure, and the limits come from what they tell.
TEST_F(SharesOfServersTest, BatchesThatMembersMeasuredGetThePlacersLimits) {
  for (Placed* const member : {&one_, &two_})
    member->core.SetStandalone(std::chrono::milliseconds(10));
  OpenPlaced();
  ASSERT_TRUE(Has(one_, "m", 0.6));
  one_.core.SetBatches("m", 4, 16);
  EXPECT_TRUE(Eventually([&] { return one_.core.CeilingOf("m") == 3; }));
  EXPECT_EQ(two_.core.CeilingOf("n"), 0);
  wishes_.rows = 2;
  EXPECT_TRUE(Eventually([&] { return one_.core.CeilingOf("m") == 2; }));
}

// The time of a row alone says 40 ms for four of them, the surface 22.
TEST_F(SharesOfServersTest, AStoredSurfaceOfAMemberTellsThePlacer) {
  one_.core.SetStandalone(std::chrono::milliseconds(10));
  one_.core.SetSurface(
      Surface::FromPoints({.rows = {1, 4}, .shares = {0.5, 1}, .latency_ms = {{16, 8}, {44, 22}}})
          .value());
  OpenPlaced();
  EXPECT_TRUE(Eventually([&] { return std::abs(wishes_.four_rows_ms - 22) < 0.1; }));
}

TEST_F(SharesOfServersTest, AMemberThatComesBackGetsItsSharesAgain) {
  OpenPlaced();
  ASSERT_TRUE(Has(one_, "m", 0.6));
  const int port = one_.server->grpc_port();
  one_.server.reset();
  ASSERT_TRUE(Eventually([&] { return !Device("one").ready; }));
  ASSERT_TRUE(one_.core.ResizeShare("m", "", {.automatic = true}));
  one_.Start(port);
  EXPECT_TRUE(Has(one_, "m", 0.6));
}

TEST_F(SharesOfServersTest, AMemberThatLeavesTunesItsSharesItself) {
  OpenPlaced();
  ASSERT_TRUE(Has(one_, "m", 0.6));
  ASSERT_TRUE(Has(two_, "n", 0.6));
  wishes_.granules = 40;
  ASSERT_TRUE(fleet_->Leave("two"));
  EXPECT_TRUE(Eventually([&] { return !two_.core.ShareOf("n"); }));
  EXPECT_TRUE(Has(one_, "m", 0.4));
  fleet_->Drain(Now() + std::chrono::seconds(20));
  EXPECT_EQ(one_.core.ShareOf("m"), std::nullopt);
  fleet_.reset();
  EXPECT_EQ(one_.core.ShareOf("m"), std::nullopt);
}

// The members refuse, and the fleet serves on.
TEST_F(SharesOfServersTest, AShareThatIsRefusedStaysAsItIs) {
  one_.core.RefuseToResize();
  OpenPlaced();
  ASSERT_TRUE(Has(two_, "n", 0.6));
  EXPECT_EQ(one_.core.ShareOf("m"), std::nullopt);
  EXPECT_TRUE(Eventually([&] { return Infer(AskFor("m")).get().has_value(); }));
}

// A device gives back the shares of its models before it loads another one.
TEST_F(SharesOfServersTest, AModelIsLoadedWhenTheSharesLeaveRoom) {
  OpenPlaced();
  wishes_.granules = 50;
  ASSERT_TRUE(Has(one_, "m", 0.5));
  std::atomic<int> fixed{0};
  one_.core.OnLoad([&] {
    if (one_.core.ShareOf("m")) ++fixed;
  });
  wishes_.together = true;
  ASSERT_TRUE(Eventually([&] { return one_.core.Loaded() == Loaded({"m", "n"}); }));
  EXPECT_TRUE(Has(one_, "n", 0.5));
  EXPECT_TRUE(Has(one_, "m", 0.5));
  EXPECT_EQ(fixed, 0);
}

// Another placer lets the members tune the shares that the first one gave, and no others.
TEST_F(SharesOfServersTest, AServersOwnShareStaysUnderAPlacerThatDoesNotDecideShares) {
  tunes_ = true;
  OpenPlaced();
  ASSERT_TRUE(one_.core.ResizeShare("m", "", {.part = 0.4}));
  const std::uint64_t decisions = fleet_->ReadFleet().decisions;
  ASSERT_TRUE(Eventually([&] { return fleet_->ReadFleet().decisions > decisions + 100; }));
  EXPECT_EQ(one_.core.ShareOf("m"), 0.4);
  tunes_ = false;
  ASSERT_TRUE(fleet_->SetPlacer("fixed"));
  EXPECT_TRUE(Has(one_, "m", 0.6));
  tunes_ = true;
  ASSERT_TRUE(fleet_->SetPlacer("fixed"));
  EXPECT_TRUE(Eventually([&] { return !one_.core.ShareOf("m") && !two_.core.ShareOf("n"); }));
}

// A placer that loads nothing at members does not set their shares either.
TEST_F(SharesOfServersTest, AFrontWithoutModelsLeavesSharesAlone) {
  RemoteOptions options;
  options.address = a_.address;
  const RemoteCore core(options);
  ASSERT_TRUE(Eventually([&] { return core.Ready(); }));
  EXPECT_FALSE(core.Shares());
}

}  // namespace
}  // namespace lagoon
