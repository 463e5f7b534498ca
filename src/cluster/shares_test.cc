#include "cluster/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace lagoon {
namespace {

using List = std::vector<double>;
using Counts = std::vector<std::uint32_t>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr MaxMinRules kEvenly{.shortage = MaxMinRules::Shortage::kEvenly};

double Sum(const List& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

// Fig. 16 of the paper: two models at 30 %, SLO 50 ms, 35 requests a second each.
constexpr ShareLoad kVgg19{
    .share = 0.3, .latency_ms = 65, .slo_ms = 50, .rows_per_s = 15, .arrivals_per_s = 35};
constexpr ShareLoad kResNet50{
    .share = 0.3, .latency_ms = 7.6, .slo_ms = 50, .rows_per_s = 131, .arrivals_per_s = 35};

TEST(TuneShare, GivesTheSharesOfFigure16) {
  EXPECT_DOUBLE_EQ(*TuneShare(kVgg19, 0.01), 0.60);  // 2.33 times would be 70 %
  EXPECT_NEAR(*TuneShare(kResNet50, 0.01), 0.08, 0.0005);
}

// With a fifth of the capacity to spare, ResNet-50's 35 requests a second need 10 %.
TEST(TuneShare, ArrivalsUseAPartOfTheCapacity) {
  ShareLoad load = kResNet50;
  load.utilisation = 0.8;
  EXPECT_NEAR(*TuneShare(load, 0.01), 0.1002, 0.0001);
  load = kVgg19;
  load.utilisation = 0.8;  // 2.92 times
  EXPECT_DOUBLE_EQ(*TuneShare(load, 0.01), 0.60);
  load = kResNet50;
  load.utilisation = 0.8;
  load.latency_ms = 50;  // an SLO is not divided
  EXPECT_EQ(*TuneShare(load, 0.01), load.share);
}

TEST(TuneShare, TheLargerNeedDecides) {
  ShareLoad load = kResNet50;
  load.latency_ms = 40;  // 0.8 of the SLO, but 0.27 of the capacity
  EXPECT_DOUBLE_EQ(*TuneShare(load, 0.01), 0.24);
  load.latency_ms = 75;  // over the SLO, though there is capacity
  EXPECT_DOUBLE_EQ(*TuneShare(load, 0.01), 0.45);
  load.latency_ms = 10;
  load.arrivals_per_s = 1.5 * load.rows_per_s;
  EXPECT_DOUBLE_EQ(*TuneShare(load, 0.01), 0.45);
}

TEST(TuneShare, StaysWithinFivePercentOfTheNeed) {
  ShareLoad load = kResNet50;
  for (const double part : {0.951, 1.0, 1.049}) {
    load.latency_ms = part * load.slo_ms;
    EXPECT_EQ(*TuneShare(load, 0.01), load.share) << part;
  }
  for (const double part : {0.949, 1.051}) {
    load.latency_ms = part * load.slo_ms;
    EXPECT_NEAR(*TuneShare(load, 0.01), load.share * part, 1e-12) << part;
  }
}

TEST(TuneShare, StaysBetweenAGranuleAndTheDevice) {
  ShareLoad load = kVgg19;
  load.share = 0.8;
  EXPECT_EQ(*TuneShare(load, 0.01), 1);
  load = kResNet50;
  load.latency_ms = 0;
  load.arrivals_per_s = 0;
  EXPECT_EQ(*TuneShare(load, 0.125), 0.125);
}

TEST(TuneShare, AHostBoundModelDoesNotGrow) {
  ShareLoad load = kVgg19;
  load.host_bound = true;
  EXPECT_EQ(*TuneShare(load, 0.01), 0.3);
  load = kResNet50;
  load.host_bound = true;
  EXPECT_NEAR(*TuneShare(load, 0.01), 0.08, 0.0005);
}

TEST(TuneShare, HostileValuesAreRefusedByName) {
  const auto refused = [](double ShareLoad::*member, double value, const char* message) {
    ShareLoad load = kVgg19;
    load.*member = value;
    const auto tuned = TuneShare(load, 0.01);
    ASSERT_FALSE(tuned) << message;
    EXPECT_EQ(tuned.error().message.find(message), 0u) << tuned.error().message;
  };
  for (const double value : {kNan, kInfinity, -1.0, 1e300}) {
    refused(&ShareLoad::share, value, "share is ");
    refused(&ShareLoad::latency_ms, value, "latency_ms is ");
    refused(&ShareLoad::slo_ms, value, "slo_ms is ");
    refused(&ShareLoad::rows_per_s, value, "rows_per_s is ");
    refused(&ShareLoad::arrivals_per_s, value, "arrivals_per_s is ");
    refused(&ShareLoad::utilisation, value, "utilisation is ");
  }
  refused(&ShareLoad::utilisation, 0, "utilisation is ");
  refused(&ShareLoad::share, 0, "share is ");
  refused(&ShareLoad::slo_ms, 0, "slo_ms is ");
  refused(&ShareLoad::rows_per_s, 0, "rows_per_s is ");
  for (const double granule : {kNan, 0.0, -1.0, 2.0}) EXPECT_FALSE(TuneShare(kVgg19, granule));
}

TEST(MaxMin, MeetsTheSmallestDemandsFirst) {
  EXPECT_EQ(*MaxMin(List{60, 8}, 100), (List{60, 8}));     // Fig. 16: 32 % stays idle
  EXPECT_EQ(*MaxMin(List{100, 30}, 100), (List{70, 30}));  // Fig. 15
  EXPECT_EQ(*MaxMin(List{10, 60, 60}, 100), (List{10, 45, 45}));
  EXPECT_EQ(*MaxMin(List{10, 50, 70}, 100, kEvenly), (List{10, 45, 45}));
  EXPECT_EQ(*MaxMin(List{10, 50, 70}, 100), (List{10, 37.5, 52.5}));
  EXPECT_EQ(*MaxMin(List{}, 100), List{});
  EXPECT_EQ(*MaxMin(List{0, 0}, 100), (List{0, 0}));
}

TEST(MaxMin, ASurplusIsSharedInProportionIfWanted) {
  const MaxMinRules rules{.surplus = MaxMinRules::Surplus::kProportional};
  EXPECT_EQ(*MaxMin(List{60, 20}, 100, rules), (List{75, 25}));
  EXPECT_EQ(*MaxMin(List{0, 0}, 100, rules), (List{50, 50}));
  EXPECT_EQ(*MaxMin(List{100, 30}, 100, rules), (List{70, 30}));  // there is none
}

List RandomDemands(Random& random) {
  List demands;
  const std::uint32_t models = 1 + random.Below(9);
  const double scale = random.Happens(0.5) ? 100 : 30;
  for (std::uint32_t i = 0; i < models; ++i) {
    demands.push_back(random.Happens(0.1) ? 0 : random.Uniform(0, scale));
  }
  return demands;
}

TEST(MaxMin, NothingExceedsTheCapacityOrItsDemand) {
  Random random(4);
  for (int draw = 0; draw < 1000; ++draw) {
    const List demands = RandomDemands(random);
    for (const MaxMinRules::Shortage shortage :
         {MaxMinRules::Shortage::kByDemand, MaxMinRules::Shortage::kEvenly}) {
      const List shares = *MaxMin(demands, 100, {.shortage = shortage});
      EXPECT_LE(Sum(shares), 100 + 1e-9);
      EXPECT_NEAR(Sum(shares), std::min(100.0, Sum(demands)), 1e-9);
      for (std::size_t i = 0; i < demands.size(); ++i) EXPECT_LE(shares[i], demands[i] + 1e-9);
    }
    const List whole = *MaxMin(demands, 100, {.surplus = MaxMinRules::Surplus::kProportional});
    EXPECT_NEAR(Sum(whole), 100, 1e-9);
  }
}

TEST(MaxMin, EvenlyALargerDemandNeverRaisesAnothersShare) {
  Random random(5);
  for (int draw = 0; draw < 1000; ++draw) {
    List demands = RandomDemands(random);
    const List before = *MaxMin(demands, 100, kEvenly);
    const std::size_t raised = random.Below(static_cast<std::uint32_t>(demands.size()));
    demands[raised] += random.Uniform(0, 50);
    const List after = *MaxMin(demands, 100, kEvenly);
    for (std::size_t i = 0; i < demands.size(); ++i) {
      if (i == raised) continue;
      EXPECT_LE(after[i], before[i] + 1e-9);
    }
    EXPECT_GE(after[raised], before[raised] - 1e-9);
  }
}

// The paper's rule lacks that property: the second model asks for a little more, no longer fits in
// the even part of what is left, and is then weighed against the third one.
TEST(MaxMin, ByDemandALargerDemandMayCostItsOwnModel) {
  EXPECT_EQ(*MaxMin(List{30, 34, 100}, 100), (List{30, 34, 36}));
  const List after = *MaxMin(List{30, 36, 100}, 100);
  EXPECT_EQ(after[0], 30);
  EXPECT_NEAR(after[1], 18.53, 0.01);
  EXPECT_NEAR(after[2], 51.47, 0.01);
}

// The lexicographic optimum as a sequence of linear programmes: raise the least share of all models
// that are not fixed as far as the capacity allows; fix those at their demand; again.
List LexicographicOptimum(const List& demands, double capacity) {
  List shares(demands.size(), 0);
  std::vector<bool> fixed(demands.size(), false);
  for (std::size_t round = 0; round < demands.size(); ++round) {
    const auto needs = [&](double level) {
      double sum = 0;
      for (std::size_t i = 0; i < demands.size(); ++i) {
        sum += fixed[i] ? shares[i] : level;
      }
      return sum;
    };
    double most = capacity;  // no model of this programme may exceed its demand
    for (std::size_t i = 0; i < demands.size(); ++i) {
      if (!fixed[i]) most = std::min(most, demands[i]);
    }
    double low = 0, high = most;
    for (int step = 0; step < 100; ++step) {
      const double level = (low + high) / 2;
      (needs(level) <= capacity ? low : high) = level;
    }
    const bool all_met = needs(most) <= capacity;
    const double level = all_met ? most : low;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      if (fixed[i]) continue;
      shares[i] = level;
      fixed[i] = !all_met || demands[i] <= level;
    }
  }
  return shares;
}

TEST(MaxMin, EvenlyIsTheLexicographicOptimum) {
  Random random(6);
  for (int draw = 0; draw < 1000; ++draw) {
    const List demands = RandomDemands(random);
    const List shares = *MaxMin(demands, 100, kEvenly);
    const List optimum = LexicographicOptimum(demands, 100);
    for (std::size_t i = 0; i < demands.size(); ++i) EXPECT_NEAR(shares[i], optimum[i], 1e-9);
  }
}

// Max-min fairness by its definition: a share can only grow at the cost of one that is no larger.
TEST(MaxMin, EvenlyNoShareCanGrowAtTheCostOfALargerOne) {
  Random random(7);
  for (int draw = 0; draw < 1000; ++draw) {
    const List demands = RandomDemands(random);
    const List shares = *MaxMin(demands, 100, kEvenly);
    const double largest = *std::ranges::max_element(shares);
    for (std::size_t i = 0; i < demands.size(); ++i) {
      const bool met = shares[i] >= demands[i] - 1e-9;
      EXPECT_TRUE(met || (shares[i] >= largest - 1e-9 && Sum(shares) > 100 - 1e-9));
    }
  }
}

TEST(MaxMin, HostileValuesAreRefused) {
  for (const double bad : {kNan, kInfinity, -1.0}) {
    const auto shares = MaxMin(List{1, bad}, 100);
    ASSERT_FALSE(shares);
    EXPECT_EQ(shares.error().message.find("demand 1 is "), 0u) << shares.error().message;
    EXPECT_FALSE(MaxMin(List{1}, bad));
  }
  EXPECT_FALSE(MaxMin(List{1}, 0));
  EXPECT_EQ(*MaxMin(List{1e308, 1e308}, 100), (List{50, 50}));
}

TEST(ToGranules, RoundsTheLargestRemaindersUp) {
  EXPECT_EQ(*ToGranules(List{60, 8.015}, 100), (Counts{60, 8}));
  EXPECT_EQ(*ToGranules(List{33.4, 33.3, 33.3}, 100), (Counts{34, 33, 33}));
  EXPECT_EQ(*ToGranules(List{1.6, 1.6, 0.8}, 4), (Counts{2, 1, 1}));
  EXPECT_EQ(*ToGranules(List{}, 4), Counts{});
}

TEST(ToGranules, EachModelGetsOneAtLeast) {
  EXPECT_EQ(*ToGranules(List{0, 0.1, 2.9}, 3), (Counts{1, 1, 1}));
  EXPECT_EQ(*ToGranules(List{0, 0}, 80), (Counts{1, 1}));
}

TEST(ToGranules, RandomSharesFitInTheDevice) {
  Random random(8);
  for (int draw = 0; draw < 1000; ++draw) {
    const std::uint32_t granules = 9 + random.Below(100);
    List demands = RandomDemands(random);
    const List exact = *MaxMin(demands, granules);
    const Counts counts = *ToGranules(exact, granules);
    EXPECT_LE(std::accumulate(counts.begin(), counts.end(), 0u), granules);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      EXPECT_GE(counts[i], 1u);
      EXPECT_LT(counts[i], std::max(1.0, exact[i]) + 1);  // rounded at most to the next
    }
  }
}

TEST(ToGranules, MoreModelsThanGranulesAreRefused) {
  const auto counts = ToGranules(List{0.5, 0.5, 0.5}, 2);
  ASSERT_FALSE(counts);
  EXPECT_EQ(counts.error().code, ErrorCode::kResourceExhausted);
  for (const double bad : {kNan, kInfinity, -1.0, 5.0}) EXPECT_FALSE(ToGranules(List{bad}, 4));
  EXPECT_FALSE(ToGranules(List{3, 3}, 4));
}

}  // namespace
}  // namespace lagoon
