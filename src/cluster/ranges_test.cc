#include "cluster/ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "base/random.h"

namespace lagoon {
namespace {

RangeWanted Old(std::uint32_t first, std::uint32_t count, std::uint32_t wanted) {
  return {GranuleRange{first, count}, wanted, false};
}

// Carries out the moves and checks that no two shares overlap at any time.
void Replay(const std::vector<RangeWanted>& models, const Repacking& packed,
            std::uint32_t granules) {
  std::vector<std::optional<GranuleRange>> present;
  for (const RangeWanted& model : models) present.push_back(model.now);
  for (const std::size_t mover : packed.order) {
    ASSERT_NE(present[mover], packed.ranges[mover]);
    present[mover] = packed.ranges[mover];
    ASSERT_LE(packed.ranges[mover].end(), granules);
    for (std::size_t i = 0; i < models.size(); ++i) {
      ASSERT_FALSE(i != mover && present[i] && present[i]->Overlaps(*present[mover]));
    }
  }
  for (std::size_t i = 0; i < models.size(); ++i) {
    ASSERT_EQ(present[i], packed.ranges[i]);
    ASSERT_EQ(present[i]->count, models[i].count);
  }
}

TEST(Repack, ABoundaryMovesBothNeighboursTheOneThatShrinksFirst) {
  const std::vector<RangeWanted> models = {Old(0, 50, 60), Old(50, 50, 40)};
  const auto packed = Repack(models, 100);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->ranges, (std::vector<GranuleRange>{{0, 60}, {60, 40}}));
  EXPECT_EQ(packed->order, (std::vector<std::size_t>{1, 0}));
}

TEST(Repack, OthersStayWhereTheyAre) {
  const auto packed = Repack(std::vector{Old(0, 20, 10), Old(20, 30, 30), Old(50, 20, 25)}, 100);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->ranges, (std::vector<GranuleRange>{{0, 10}, {20, 30}, {50, 25}}));
  EXPECT_EQ(packed->order.size(), 2u);
  EXPECT_TRUE(Repack(std::vector{Old(3, 4, 4), Old(8, 2, 2)}, 10)->order.empty());
}

TEST(Repack, ANewModelGoesWhereTheFewestOthersMove) {
  const std::vector<RangeWanted> models = {Old(0, 30, 30), Old(60, 40, 40), {std::nullopt, 20}};
  const auto packed = Repack(models, 100);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->ranges[2], (GranuleRange{30, 20}));
  EXPECT_EQ(packed->order, (std::vector<std::size_t>{2}));
}

TEST(Repack, ASharePinnedInTheMiddleStays) {
  std::vector<RangeWanted> models = {Old(0, 40, 50), Old(40, 20, 20), Old(60, 40, 30)};
  const auto packed = Repack(models, 100);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->order.size(), 3u);  // without a pin it moves aside
  models[1].pinned = true;
  EXPECT_FALSE(Repack(models, 100));
  models[0].count = 40;
  EXPECT_EQ(Repack(models, 100)->order, (std::vector<std::size_t>{2}));
}

// The least number of moves, by trying every placement in order.
std::size_t FewestMoves(const std::vector<RangeWanted>& models, std::uint32_t granules) {
  std::size_t fewest = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> order(models.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const std::function<void(std::size_t, std::uint32_t, std::size_t)> place =
      [&](std::size_t at, std::uint32_t free, std::size_t moves) {
        if (at == order.size()) {
          fewest = std::min(fewest, moves);
          return;
        }
        const RangeWanted& model = models[order[at]];
        for (std::uint32_t first = free; first + model.count <= granules; ++first) {
          const bool moves_it = model.now != GranuleRange{first, model.count};
          if (model.pinned && moves_it) continue;
          place(at + 1, first + model.count, moves + (moves_it ? 1 : 0));
        }
      };
  do {
    std::vector<std::uint32_t> firsts;  // of the models that are there: they keep their order
    for (const std::size_t i : order) {
      if (models[i].now) firsts.push_back(models[i].now->first);
    }
    if (std::ranges::is_sorted(firsts)) place(0, 0, 0);
  } while (std::next_permutation(order.begin(), order.end()));
  return fewest;
}

TEST(Repack, MovesAsFewAsPossibleInASafeOrder) {
  Random random(9);
  constexpr std::uint32_t kGranules = 10;
  int impossible = 0;
  for (int draw = 0; draw < 2000; ++draw) {
    std::vector<RangeWanted> models;
    std::uint32_t at = 0, left = kGranules;
    const std::uint32_t wanted_models = 1 + random.Below(4);
    for (std::uint32_t i = 0; i < wanted_models && at + 1 < kGranules; ++i) {
      const std::uint32_t first = at + random.Below(2);
      const std::uint32_t count = 1 + random.Below(std::min(4u, kGranules - first));
      models.push_back(Old(first, count, count));
      at = first + count;
    }
    if (random.Happens(0.3)) models.push_back({std::nullopt, 1});
    for (std::size_t i = 0; i < models.size(); ++i) {
      const auto others = static_cast<std::uint32_t>(models.size() - 1 - i);
      if (models[i].now && random.Happens(0.5)) models[i].count = 1 + random.Below(5);
      models[i].count = std::min(models[i].count, left - others);
      left -= models[i].count;
      models[i].pinned =
          models[i].now && models[i].now->count == models[i].count && random.Happens(0.2);
    }
    const bool one_is_new = std::ranges::any_of(models, [](const auto& m) { return !m.now; });
    const auto packed = Repack(models, kGranules);
    const std::size_t fewest = FewestMoves(models, kGranules);
    ASSERT_EQ(packed.has_value(), fewest != std::numeric_limits<std::size_t>::max()) << draw;
    if (!packed) {
      ++impossible;
      continue;
    }
    Replay(models, *packed, kGranules);
    EXPECT_EQ(packed->order.size(), fewest) << draw << (one_is_new ? ", one is new" : "");
  }
  EXPECT_GT(impossible, 10);  // the pins matter
}

TEST(Repack, ManyModelsFindASafeOrder) {
  Random random(10);
  for (int draw = 0; draw < 300; ++draw) {
    constexpr std::uint32_t kGranules = 132;
    std::vector<RangeWanted> models;
    std::uint32_t at = 0, left = kGranules;
    for (std::uint32_t i = 0; i < 20; ++i) {
      const std::uint32_t count = 1 + random.Below(6);
      models.push_back(random.Happens(0.1) ? RangeWanted{std::nullopt, count}
                                           : Old(at, count, 1 + random.Below(8)));
      at += count;
      models.back().count = std::min(models.back().count, left - (19 - i));
      left -= models.back().count;
    }
    const auto packed = Repack(models, kGranules);
    ASSERT_TRUE(packed);
    Replay(models, *packed, kGranules);
  }
}

TEST(RepackDeathTest, RefusesWhatDoesNotFit) {
  EXPECT_DEATH(Repack(std::vector{Old(0, 4, 0)}, 8), "count >= 1");
  EXPECT_DEATH(Repack(std::vector{Old(0, 4, 9)}, 8), "sum <= granules");
  EXPECT_DEATH(Repack(std::vector{Old(0, 4, 4), Old(3, 1, 1)}, 8), "first >= end");
  EXPECT_DEATH(Repack(std::vector{Old(6, 4, 4)}, 8), "end <= granules");
}

}  // namespace
}  // namespace lagoon
