#include "sim/placement/periodic_placer.h"

#include <gtest/gtest.h>

#include "cluster/placement/testing/test_fleet.h"

namespace lagoon {
namespace {

using testing::TestFleet;

TEST(PeriodicPlacer, AsksEveryTenDecisionsOrIfTheFleetChanges) {
  class Counting final : public Placer {
   public:
    explicit Counting(int& calls) : calls_(calls) {}
    std::string_view name() const override { return "counting"; }
    Assignment Place(const PlacementView& view) override {
      ++calls_;
      Assignment assignment;
      for (std::size_t i = 0; i < view.models.size(); ++i) {
        assignment.refused.push_back({i, "test"});
      }
      return assignment;
    }

   private:
    int& calls_;
  };
  TestFleet fleet(1);
  fleet.Add(1, 10, 50);
  int calls = 0;
  PeriodicPlacer placer(std::make_unique<Counting>(calls));
  for (int i = 0; i < 30; ++i) {
    // What is measured changes no fleet.
    fleet.view.models[0].rate = i;
    fleet.view.models[0].slowdown = 1 + 0.01 * i;
    fleet.view.models[0].measured_ms = i;
    placer.Place(fleet.view);
  }
  EXPECT_EQ(calls, 3);
  fleet.view.models[0].slo *= 2;
  placer.Place(fleet.view);
  EXPECT_EQ(calls, 4) << "the SLO itself has changed";
  calls = 2;
  fleet.Add(1, 10, 50);
  EXPECT_EQ(placer.Place(fleet.view).refused.size(), 2u);
  EXPECT_EQ(calls, 3);
  fleet.view.gpus.pop_back();
  fleet.view.gpus.push_back({.granules = 7, .memory_bytes = 1});
  placer.Place(fleet.view);
  EXPECT_EQ(calls, 4);
}

// A planner that starts from nothing names equal GPUs as it likes.
TEST(PeriodicPlacer, ANewPlanKeepsTheNamesOfGpus) {
  class Turning final : public Placer {
   public:
    std::string_view name() const override { return "turning"; }
    Assignment Place(const PlacementView& /*view*/) override {
      const std::size_t first = turn_++ % 2;
      return {{{0, first, 20, 1, 1}, {1, 1 - first, 20, 1, 1}}, {}};
    }

   private:
    std::size_t turn_ = 0;
  };
  TestFleet fleet(2);
  for (int i = 0; i < 2; ++i) fleet.Add(1, 10, 50);
  PeriodicPlacer placer(std::make_unique<Turning>());
  const Assignment first = placer.Place(fleet.view);
  fleet.view.current = first;
  for (int i = 0; i < 30; ++i) EXPECT_EQ(placer.Place(fleet.view), first);
}

}  // namespace
}  // namespace lagoon
