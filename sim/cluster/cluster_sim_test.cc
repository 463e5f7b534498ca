#include "sim/cluster/cluster_sim.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/cluster/draws.h"

namespace lagoon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

const Surface& SurfaceOf(double base_ms, double row_ms, double fixed = 0) {
  static std::deque<Surface> kept;
  kept.push_back(*Surface::FromFormula(
      {.base_ms = base_ms, .row_ms = row_ms, .fixed = fixed, .knee = 1, .growth = 0}));
  return kept.back();
}

ModelSpec ModelOf(const std::string& name, const Surface& surface, ArrivalSpec arrivals) {
  ModelSpec model;
  model.name = name;
  model.surface = &surface;
  model.arrivals = std::move(arrivals);
  model.slo = milliseconds(100);
  return model;
}

ArrivalSpec Every(Nanoseconds gap, Nanoseconds until = seconds(1000)) {
  ArrivalSpec spec;
  spec.kind = ArrivalKind::kPeriodic;
  spec.rates = {{Nanoseconds(0), 1e9 / static_cast<double>(gap.count())}, {until, 0}};
  return spec;
}

ClusterSpec SpecOf(std::vector<ModelSpec> models, Nanoseconds length) {
  ClusterSpec spec;
  spec.gpus = {GpuSpec{}};
  spec.models = std::move(models);
  spec.truth = TruthSpec::Exact();
  spec.length = length;
  const auto granules = static_cast<std::uint32_t>(100 / spec.models.size());
  for (std::size_t i = 0; i < spec.models.size(); ++i) {
    spec.replicas.push_back({.model = i, .gpu = 0, .granules = granules});
  }
  return spec;
}

SimReport RunOf(ClusterSpec spec) {
  EXPECT_TRUE(CheckCluster(spec));
  SimController controller;
  return ClusterSim(std::move(spec)).Run(controller);
}

// Calls a function at every decision.
class Deciding final : public SimController {
 public:
  explicit Deciding(std::function<void(ClusterSim&)> decide) : decide_(std::move(decide)) {}
  void Decide(ClusterSim& sim) override { decide_(sim); }

 private:
  std::function<void(ClusterSim&)> decide_;
};

// ---- Closed forms: within 2 %, three seeds.

TEST(ClusterSim, OneAtATimeMeetsMm1AndMd1) {
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    for (const bool exponential : {true, false}) {
      ClusterSpec spec =
          SpecOf({ModelOf("a", SurfaceOf(1, 0), PoissonArrivals(600))}, seconds(2000));
      spec.truth.exponential = exponential;
      spec.seed = seed;
      spec.warmup = seconds(10);
      const SimReport report = RunOf(spec);
      // Mean time in the system at load 0.6: 1 / (mu - lambda), and Pollaczek-Khinchine.
      const double expected = exponential ? 1 / 0.4 : 1 + 0.6 / (2 * 0.4);
      EXPECT_NEAR(report.models[0].requests.MeanMs(), expected, 0.02 * expected)
          << exponential << " seed " << seed;
      EXPECT_NEAR(report.Throughput(0), 600, 6);
    }
  }
}

// The mean time in a system that serves up to `most` rows at once, each batch in 1 ms, from the
// Markov chain of the requests that a batch leaves behind.
double BulkMeanMs(double per_ms, int most) {
  constexpr int kStates = 120;
  std::vector<double> arrivals(kStates), at(kStates), next(kStates);
  double term = std::exp(-per_ms);
  for (int k = 0; k < kStates; ++k, term *= per_ms / k) arrivals[k] = term;
  at[0] = 1;
  for (int round = 0; round < 500; ++round) {
    std::ranges::fill(next, 0);
    for (int n = 0; n < kStates; ++n) {
      const int left = std::max(n - most, 0);  // if empty, a batch of the next arrival follows
      for (int k = 0; left + k < kStates; ++k) next[left + k] += at[n] * arrivals[k];
    }
    std::swap(at, next);
  }
  double time = 0, requests = 0;
  for (int n = 0; n < kStates; ++n) {
    time += at[n] * (1 + (n == 0 ? 1 / per_ms : 0));
    requests += at[n] * (std::max(n, 1) + per_ms / 2);
  }
  return requests / time / per_ms;
}

TEST(ClusterSim, BatchesWithALimitMeetTheMarkovChain) {
  EXPECT_NEAR(BulkMeanMs(0.6, 1), 1.75, 1e-6);  // M/D/1
  for (const std::uint32_t seed : {1u, 2u, 3u}) {
    ModelSpec model = ModelOf("a", SurfaceOf(1, 0), PoissonArrivals(3200));
    model.batching.rows = 4;
    ClusterSpec spec = SpecOf({model}, seconds(1000));
    spec.seed = seed;
    spec.warmup = seconds(10);
    const double expected = BulkMeanMs(3.2, 4);
    EXPECT_NEAR(RunOf(spec).models[0].requests.MeanMs(), expected, 0.02 * expected);
  }
}

// ---- Truth.

TEST(ClusterSim, TwoBatchesThatOverlapHalfTheirTimeEndWhereHandCalculationSays) {
  // Each takes 10 ms on its half. b starts 5 ms after a, and each slows the other by 20 %.
  // a: 5 ms alone, then 5 ms of work at 1 / 1.2: ends at 11 ms. b: 6 ms at 1 / 1.2 = 5 ms of work,
  // then 5 ms alone: ends at 5 + 6 + 5 = 16 ms.
  ClusterSpec spec = SpecOf(
      {ModelOf("a", SurfaceOf(5, 0), ClosedLoop(1)), ModelOf("b", SurfaceOf(5, 0), ClosedLoop(1))},
      seconds(1));
  spec.truth.cache = 0.4;
  spec.truth.dram = 0;
  for (ModelSpec& model : spec.models) model.cache = 1;
  BatchDevice device(spec, 1);
  const auto start = [&](std::size_t model, Nanoseconds now) {
    SimBatch& batch = device.Start(now);
    batch.replica = batch.model = model;
    batch.rows = 1;
    batch.share = 0.5;
    return device.Settle(now);
  };
  EXPECT_EQ(start(0, milliseconds(0)), milliseconds(10));
  EXPECT_EQ(start(1, milliseconds(5)), milliseconds(11));
  ASSERT_NE(device.TakeEnded(milliseconds(11)), nullptr);
  EXPECT_EQ(device.TakeEnded(milliseconds(11)), nullptr);
  EXPECT_EQ(device.Settle(milliseconds(11)), milliseconds(16));
}

TEST(ClusterSim, InterferenceOfPairsIsWithinThePublishedRange) {
  const TruthSpec truth;
  std::vector<double> slowdowns;
  for (const double cache : {0.1, 0.4, 0.7, 1.0}) {
    for (const double dram : {0.1, 0.4, 0.7, 1.0}) {
      slowdowns.push_back(Slowdown(truth, cache * 0.5, dram * 0.5) - 1);
    }
  }
  std::ranges::sort(slowdowns);
  EXPECT_GE(slowdowns.front(), 0.013);
  EXPECT_LE(slowdowns.back(), 0.23);
  EXPECT_NEAR(slowdowns[slowdowns.size() / 2], 0.11, 0.02);
  EXPECT_GT(Slowdown(truth, 1, 1), 1 + truth.cache + truth.dram - 0.3);  // saturates, product
  EXPECT_LT(Slowdown(truth, 100, 100), 1 + truth.limit);
  EXPECT_NEAR(Slowdown(TruthSpec::Exact(), 0.5, 0.5), 1.225, 1e-9);
}

// ---- Modes.

TEST(ClusterSim, ModesShareTheDeviceAsTheySay) {
  const auto run = [](ShareMode mode, MpsRule rule) {
    ClusterSpec spec = SpecOf({ModelOf("small", SurfaceOf(2, 0), ClosedLoop(4)),
                               ModelOf("large", SurfaceOf(8, 0), ClosedLoop(4))},
                              seconds(4));
    spec.mode = mode;
    spec.mps = rule;
    return RunOf(spec);
  };
  // Halves: 4 and 16 ms.
  const SimReport shares = run(ShareMode::kShares, MpsRule::kKnee);
  EXPECT_EQ(shares.models[0].served, 1000u);
  EXPECT_EQ(shares.models[1].served, 250u);
  // Turns: 10 ms for one batch of each, alone on the device.
  const SimReport turns = run(ShareMode::kTimeSlice, MpsRule::kKnee);
  EXPECT_EQ(turns.models[0].served, 400u);
  EXPECT_EQ(turns.models[1].served, 400u);
  EXPECT_NEAR(turns.models[0].batch_time.MeanMs(), 2, 1e-9);
  // Equal knees: halves. By work: 2 to 8, so that each takes 10 ms.
  EXPECT_EQ(run(ShareMode::kDefaultMps, MpsRule::kKnee).models[0].served, 1000u);
  EXPECT_EQ(run(ShareMode::kDefaultMps, MpsRule::kWork).models[0].served, 400u);
}

TEST(ClusterSim, TwoPlacesHalveTheShareOfEachBatch) {
  // 30 % of the time needs no units, so that two at once gain: 10 ms (0.3 + 0.7 x 2) = 17 ms.
  ClusterSpec spec = SpecOf({ModelOf("a", SurfaceOf(10, 0, 0.3), ClosedLoop(4))}, seconds(17));
  spec.replicas[0].places = 2;
  const SimReport report = RunOf(spec);
  EXPECT_EQ(report.models[0].served, 2000u);
  EXPECT_NEAR(report.models[0].batch_time.MeanMs(), 17, 0.001);
}

// ---- Forming batches.

TEST(ClusterSim, ABatchWaitsUntilItIsFullOrItsTimeHasCome) {
  ModelSpec model = ModelOf("a", SurfaceOf(10, 0), Every(milliseconds(8)));
  model.slo_of = SloOf::kRequest;
  model.batching = {.rows = 4, .fill = true};
  EXPECT_NEAR(RunOf(SpecOf({model}, seconds(2))).models[0].MeanBatch(), 4, 0.05);
  // 10 of 100 ms are for the batch and 5 the margin: the first request waits for 85 ms, which is
  // enough for two more.
  model.arrivals = Every(milliseconds(40));
  const SimReport report = RunOf(SpecOf({model}, seconds(20)));
  EXPECT_NEAR(report.models[0].MeanBatch(), 3, 0.05);
  EXPECT_EQ(report.models[0].late, 0u);
  EXPECT_NEAR(report.models[0].requests.PercentileMs(1), 95, 1);
}

TEST(ClusterSim, RequestsThatWouldBeLateAreDropped) {
  ModelSpec model = ModelOf("a", SurfaceOf(10, 0), PoissonArrivals(200));
  model.slo_of = SloOf::kRequest;
  ClusterSpec spec = SpecOf({model}, seconds(20));
  const SimReport kept = RunOf(spec);
  EXPECT_GT(kept.models[0].late, 1900u);
  EXPECT_EQ(kept.models[0].dropped, 0u);
  spec.models[0].batching.drop = true;
  const SimReport dropped = RunOf(spec);
  EXPECT_EQ(dropped.models[0].late, 0u);
  EXPECT_NEAR(static_cast<double>(dropped.models[0].dropped), 2000, 200);
  EXPECT_NEAR(dropped.Goodput(0), 100, 1);
}

// ---- Bookkeeping.

ClusterSpec Busy(std::uint32_t seed) {
  ArrivalSpec bursts = PoissonArrivals(150);
  bursts.kind = ArrivalKind::kMmpp;
  ArrivalSpec gamma = PoissonArrivals(100);
  gamma.kind = ArrivalKind::kGamma;
  gamma.cv = 4;
  ArrivalSpec wave = PoissonArrivals(80);
  wave.swing = 0.8;
  ClusterSpec spec =
      SpecOf({ModelOf("a", SurfaceOf(2, 1), bursts), ModelOf("b", SurfaceOf(1, 1), gamma),
              ModelOf("c", SurfaceOf(1, 1), wave)},
             seconds(20));
  for (ModelSpec& model : spec.models) {
    model.cache = model.dram = 0.5;
    model.slo_of = SloOf::kRequest;
    model.batching = {.limiter = "slab", .rows = 16, .drop = true};
  }
  spec.gpus.resize(2);
  spec.replicas.push_back({.model = 0, .gpu = 1, .granules = 50, .places = 2});
  spec.truth = {};
  spec.seed = seed;
  return spec;
}

TEST(ClusterSim, NothingIsLostAtAnyDecision) {
  ClusterSpec spec = Busy(1);
  spec.decision = milliseconds(10);
  int decisions = 0;
  Deciding controller([&](ClusterSim& sim) {
    if (++decisions == 1000) {
      EXPECT_TRUE(sim.Remove(1));
    }
    for (std::size_t i = 0; i < 3; ++i) {
      const SimCounts counts = sim.Counts(i);
      ASSERT_EQ(counts.arrived, counts.served + counts.dropped + counts.waiting + counts.running);
    }
  });
  const SimReport report = ClusterSim(spec).Run(controller);
  EXPECT_EQ(decisions, 2000);
  for (const ModelReport& model : report.models) EXPECT_GT(model.served, 500u);
}

TEST(ClusterSim, TheSameSeedGivesTheSameBytes) {
  const std::string one = ToJson(RunOf(Busy(1))).dump();
  EXPECT_EQ(one, ToJson(RunOf(Busy(1))).dump());
  EXPECT_NE(one, ToJson(RunOf(Busy(2))).dump());
}

TEST(ClusterSim, GoldenTrace) {
  // Requests at 0, 3, 6, ... ms after a random phase; a batch of b rows takes 4 + b ms.
  class Trace final : public SimController {
   public:
    void OnBatch(ClusterSim& sim, const BatchEnded& batch) override {
      if (ends.size() < 20)
        ends.push_back(fmt::format("{}@{}", batch.rows, sim.now() / milliseconds(1)));
    }
    std::vector<std::string> ends;
  };
  ModelSpec model = ModelOf("a", SurfaceOf(4, 1), Every(milliseconds(3)));
  model.batching.rows = 8;
  ClusterSpec spec = SpecOf({model}, seconds(1));
  Trace trace;
  ClusterSim(spec).Run(trace);
  EXPECT_THAT(trace.ends,
              ::testing::ElementsAre("1@5", "1@10", "2@16", "2@22", "2@28", "2@34", "2@40", "2@46",
                                     "2@52", "2@58", "2@64", "2@70", "2@76", "2@82", "2@88", "2@94",
                                     "2@100", "2@106", "2@112", "2@118"));
}

TEST(ClusterSim, MeanAndDeviationOfArrivalsAreThoseOfTheSpec) {
  for (const ArrivalKind kind :
       {ArrivalKind::kPoisson, ArrivalKind::kGamma, ArrivalKind::kMmpp, ArrivalKind::kPeriodic}) {
    ArrivalSpec spec = PoissonArrivals(1000);
    spec.kind = kind;
    spec.cv = 2;
    spec.jitter = 0.5;
    Arrivals arrivals(spec, 3, seconds(1));
    double last = 1e9, sum = 0, squares = 0;
    constexpr int kCount = 400'000;
    for (int i = 0; i < kCount; ++i) {
      const auto at = static_cast<double>(arrivals.Next()->count());
      ASSERT_GE(at, last);
      sum += at - last;
      squares += (at - last) * (at - last);
      last = at;
    }
    const double mean = sum / kCount;
    EXPECT_NEAR(mean, 1e6, kind == ArrivalKind::kMmpp ? 8e4 : 2e4) << static_cast<int>(kind);
    const double cv = std::sqrt(squares / kCount / (mean * mean) - 1);
    if (kind == ArrivalKind::kPoisson) {
      EXPECT_NEAR(cv, 1, 0.02);
    }
    if (kind == ArrivalKind::kGamma) {
      EXPECT_NEAR(cv, 2, 0.06);
    }
    if (kind == ArrivalKind::kMmpp) {
      EXPECT_GT(cv, 1.15);
    }
    if (kind == ArrivalKind::kPeriodic) {
      EXPECT_NEAR(cv, 0.5 / std::sqrt(6.0), 0.01);
    }
  }
}

TEST(ClusterSim, OwnFunctionsAgreeWithTheLibrarys) {
  for (double x = 1e-9; x < 1e9; x *= 1.37) {
    EXPECT_NEAR(PortableLog(x), std::log(x), 1e-14 * std::max(1.0, std::abs(std::log(x))));
    const double power = std::fmod(x, 700) - 350;
    EXPECT_NEAR(PortableExp(power) / std::exp(power), 1, 1e-13);
    EXPECT_NEAR(PortableSine(x / 1e7), std::sin(2 * M_PI * std::fmod(x / 1e7, 1)), 1e-6);
  }
}

TEST(ClusterSim, RatesChangeByStepsAndModelsComeAndGo) {
  ArrivalSpec arrivals = PoissonArrivals(100);
  arrivals.rates.push_back({seconds(10), 400});
  ModelSpec model = ModelOf("a", SurfaceOf(1, 0), arrivals);
  model.start = seconds(5);
  model.stop = seconds(15);
  model.load = seconds(2);
  const SimReport report = RunOf(SpecOf({model}, seconds(20)));
  const auto& series = report.models[0].seconds;
  ASSERT_EQ(series.size(), 20u);
  const auto sum = [&](std::size_t from, std::size_t to, auto field) {
    std::uint64_t all = 0;
    for (std::size_t i = from; i < to; ++i) all += series[i].*field;
    return static_cast<double>(all);
  };
  EXPECT_EQ(sum(0, 5, &SimSecond::arrived) + sum(15, 20, &SimSecond::arrived), 0);
  EXPECT_NEAR(sum(5, 10, &SimSecond::arrived), 500, 80);
  EXPECT_NEAR(sum(10, 15, &SimSecond::arrived), 2000, 160);
  EXPECT_EQ(sum(5, 7, &SimSecond::served), 0);  // still loading
  EXPECT_GT(sum(7, 8, &SimSecond::served), 150);
}

// ---- Changes.

TEST(ClusterSim, SharesAbove100PercentAreRefused) {
  ClusterSpec spec = SpecOf(
      {ModelOf("a", SurfaceOf(1, 0), ClosedLoop(1)), ModelOf("b", SurfaceOf(1, 0), ClosedLoop(1))},
      seconds(5));
  spec.replicas[0].granules = 51;
  const Status wrong = CheckCluster(spec);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(wrong.error().message, HasSubstr("100 granules, its replicas need 101"));
  spec.replicas[0].granules = 50;
  bool asked = false;
  Deciding controller([&](ClusterSim& sim) {
    if (asked) return;
    asked = true;
    const Status refused = sim.Resize(0, 51);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("101 granules of 100"));
    EXPECT_FALSE(sim.Add({.model = 0, .gpu = 0, .granules = 101}));
    EXPECT_FALSE(sim.Resize(7, 1));
    EXPECT_FALSE(sim.Resize(0, 0));
    EXPECT_TRUE(sim.Resize(0, 40));
    EXPECT_TRUE(sim.Resize(1, 60));
    EXPECT_EQ(sim.Resize(1, 50).error().code, ErrorCode::kUnavailable);
  });
  const SimReport report = ClusterSim(spec).Run(controller);
  EXPECT_EQ(report.moves.size(), 2u);
  EXPECT_DOUBLE_EQ(report.models[0].seconds[2].share, 0.4);
  EXPECT_DOUBLE_EQ(report.models[1].seconds[2].share, 0.6);
  // 1 ms on the whole device is 2 ms on half, 2.5 ms on 40 %.
  EXPECT_NEAR(static_cast<double>(report.models[0].seconds[0].served), 500, 1);
  EXPECT_NEAR(static_cast<double>(report.models[0].seconds[2].served), 400, 1);
}

TEST(ClusterSim, MemoryIsNeededTwiceWhileAShadowLoads) {
  ModelSpec model = ModelOf("a", SurfaceOf(1, 0), ClosedLoop(1));
  model.memory_bytes = 6;
  model.resize = seconds(2);
  ClusterSpec spec = SpecOf({model}, seconds(10));
  spec.costs.resize = ResizeKind::kShadow;
  spec.gpus[0].memory_bytes = 11;
  int decision = 0;
  Deciding controller([&](ClusterSim& sim) {
    ++decision;
    if (sim.spec().gpus[0].memory_bytes == 11) {
      const Status refused = sim.Resize(0, 50);
      ASSERT_FALSE(refused);
      EXPECT_THAT(refused.error().message, HasSubstr("need 12 bytes of 11"));
    } else if (decision == 1 || decision == 4) {
      EXPECT_TRUE(sim.Resize(0, decision == 1 ? 50 : 100));  // the second finds its memory free
    }
  });
  EXPECT_EQ(ClusterSim(spec).Run(controller).moves.size(), 0u);
  spec.gpus[0].memory_bytes = 12;
  decision = 0;
  const SimReport report = ClusterSim(spec).Run(controller);
  EXPECT_EQ(report.moves.size(), 2u);
  // Asked for at 1 s: the old share serves until 3 s.
  EXPECT_NEAR(static_cast<double>(report.models[0].seconds[2].served), 1000, 2);
  EXPECT_NEAR(static_cast<double>(report.models[0].seconds[3].served), 500, 2);
  spec.costs.resize = ResizeKind::kRestart;
  decision = 0;
  const SimReport restarted = ClusterSim(spec).Run(controller);
  EXPECT_LE(restarted.models[0].seconds[1].served, 1u);
  EXPECT_EQ(restarted.models[0].seconds[2].served, 0u);
  EXPECT_NEAR(static_cast<double>(restarted.models[0].seconds[3].served), 500, 2);
}

TEST(ClusterSim, AReplicaServesUntilItsSuccessorElsewhereIsLoaded) {
  ModelSpec model = ModelOf("a", SurfaceOf(1, 0), PoissonArrivals(100));
  model.memory_bytes = 10'000'000'000;
  ClusterSpec spec = SpecOf({model}, seconds(10));
  spec.gpus.resize(2);
  bool asked = false;
  Deciding controller([&](ClusterSim& sim) {
    if (sim.now() == seconds(2)) {
      EXPECT_FALSE(sim.Relocate(0, 0, 50));  // no memory for both on one device
      EXPECT_TRUE(sim.Relocate(0, 1, 50));
      asked = true;
    }
    const SimCounts counts = sim.Counts(0);
    ASSERT_EQ(counts.arrived, counts.served + counts.dropped + counts.waiting + counts.running);
  });
  const SimReport report = ClusterSim(spec).Run(controller);
  EXPECT_TRUE(asked);
  EXPECT_EQ(report.relocations, 1u);
  EXPECT_EQ(report.models[0].dropped, 0u);
  EXPECT_DOUBLE_EQ(report.models[0].seconds[3].share, 1);
  EXPECT_DOUBLE_EQ(report.models[0].seconds[5].share, 0.5);
}

// InSS Eq. 1: what the shares could serve, whatever arrives.
TEST(ClusterSim, CapacityIsThatOfFullBatches) {
  ClusterSpec spec = SpecOf({ModelOf("a", SurfaceOf(1, 1), PoissonArrivals(10)),
                             ModelOf("b", SurfaceOf(2, 0), PoissonArrivals(10))},
                            seconds(10));
  spec.gpus.resize(3);
  spec.warmup = seconds(2);
  spec.models[0].batching.rows = 4;
  spec.replicas[0].rows = 4;
  spec.replicas[1].gpu = 1;
  spec.replicas[1].granules = 25;
  const SimReport report = RunOf(spec);
  // (1 + 4) ms on the whole device, so 4 rows in 10 ms on half; 1 row in 8 ms on a quarter.
  EXPECT_NEAR(report.capacity, 400 + 125, 1e-6);
  EXPECT_DOUBLE_EQ(report.gpus_used, 2);
  EXPECT_DOUBLE_EQ(report.fragments_each, 0.5 + 0.75);
  EXPECT_DOUBLE_EQ(report.fragments, (0.5 + 0.75) / 2);
  // A batch that misses the SLO serves nothing in time.
  spec.models[1].slo = milliseconds(7);
  EXPECT_NEAR(RunOf(spec).capacity, 400, 1e-6);
  // Beside each other at full load: x = 0.4 x 0.5 of the other's cache.
  spec.models[1].slo = milliseconds(100);
  spec.replicas[1].gpu = 0;
  spec.replicas[1].granules = 50;
  for (ModelSpec& model : spec.models) model.cache = 1;
  spec.truth.cache = 0.4;
  spec.truth.dram = spec.truth.product = 0;
  EXPECT_NEAR(RunOf(spec).capacity, (400 + 250) / 1.2, 0.01);
}

// A replica that loads has no granules: those that serve keep theirs, and it waits for free ones.
TEST(ClusterSim, AReplicaTakesItsGranulesWhenItServes) {
  ClusterSpec spec = SpecOf(
      {ModelOf("a", SurfaceOf(1, 0), ClosedLoop(1)), ModelOf("b", SurfaceOf(1, 0), ClosedLoop(1))},
      seconds(12));
  spec.gpus.resize(2);
  spec.replicas[0].granules = 100;
  spec.replicas[1].granules = 100;
  spec.replicas[1].gpu = 1;
  Deciding controller([&](ClusterSim& sim) {
    if (sim.now() == seconds(1)) {
      EXPECT_TRUE(sim.Add({.model = 1, .gpu = 0, .granules = 40}));
      EXPECT_EQ(sim.FreeGranules(0), 0u);
    }
    if (sim.now() == seconds(6)) {
      EXPECT_EQ(sim.replica(2).state, SimReplica::State::kLoading) << "no granule is free";
      EXPECT_TRUE(sim.Resize(0, 60));
    }
  });
  const SimReport report = ClusterSim(spec).Run(controller);
  EXPECT_DOUBLE_EQ(report.models[0].seconds[4].share, 1);
  EXPECT_DOUBLE_EQ(report.models[0].seconds[7].share, 0.6);
  EXPECT_DOUBLE_EQ(report.models[1].seconds[4].share, 1);
  EXPECT_DOUBLE_EQ(report.models[1].seconds[7].share, 1.4);
}

TEST(ClusterSim, BadSpecsAreRefusedByName) {
  const ClusterSpec good = SpecOf({ModelOf("a", SurfaceOf(1, 0), ClosedLoop(1))}, seconds(1));
  const auto refused = [&](auto change, const char* part) {
    ClusterSpec spec = good;
    change(spec);
    const Status status = CheckCluster(spec);
    EXPECT_FALSE(status) << part;
    if (!status) {
      EXPECT_THAT(status.error().message, HasSubstr(part));
    }
  };
  EXPECT_TRUE(CheckCluster(good));
  refused([](ClusterSpec& s) { s.gpus.clear(); }, "gpus is 0");
  refused([](ClusterSpec& s) { s.models[0].name = ""; }, "name is empty");
  refused([](ClusterSpec& s) { s.models[0].surface = nullptr; }, "model 'a': it has no surface");
  refused([](ClusterSpec& s) { s.models[0].slo = {}; }, "slo in ms is 0");
  refused([](ClusterSpec& s) { s.models[0].batching.limiter = "x"; }, "x");
  refused([](ClusterSpec& s) { s.models[0].batching.drop = true; }, "slo_of is not kRequest");
  refused([](ClusterSpec& s) { s.models[0].arrivals.clients = 0; }, "clients is 0");
  refused([](ClusterSpec& s) { s.models[0].arrivals = PoissonArrivals(-1); }, "per_s is -1");
  refused([](ClusterSpec& s) { s.models[0].stop = {}; }, "stops at 0 ms");
  refused([](ClusterSpec& s) { s.replicas[0].gpu = 1; }, "device 1");
  refused([](ClusterSpec& s) { s.replicas[0].places = 3; }, "places is 3");
  refused([](ClusterSpec& s) { s.models[0].memory_bytes = 17'000'000'000; }, "17000000000");
  refused([](ClusterSpec& s) { s.warmup = s.length; }, "warmup");
}

}  // namespace
}  // namespace lagoon
