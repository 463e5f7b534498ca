#include "sim/training/judge.h"

#include <gtest/gtest.h>

#include <vector>

#include "cluster/learned/learned_placer.h"
#include "sim/training/examine.h"
#include "sim/training/train.h"

namespace lagoon {
namespace {

TrainOptions Small() {
  TrainOptions options;
  options.hidden = {8};
  return options;
}

PlacementNetworks SmallNetworks() { return Trainer(Small()).Networks(); }

// The only model of the view, on one of four GPUs.
Judged JudgeAlone(const PlacementView& view, std::uint32_t granules) {
  Assignment assignment;
  assignment.replicas = {{.model = 0, .gpu = 1, .granules = granules, .rows = 4, .fraction = 1}};
  return Judge(view, assignment);
}

TEST(Judge, AShareTooSmallViolates) {
  Random random(1);
  TrainingEpisode episode({.fewest_models = 1, .most_models = 1, .scarce_memory = 0}, random);
  PlacementView& view = episode.view();
  view.models[0].rate = view.models[0].latency->alone().Throughput(4, 0.5);
  const Judged small = JudgeAlone(view, 1);
  const Judged whole = JudgeAlone(view, view.gpus[0].granules);
  EXPECT_GT(small.violations, whole.violations + 0.1);
  EXPECT_GT(whole.reward, small.reward + 0.1);
}

TEST(Judge, NeighboursCountThoughThePlacerIgnoresThem) {
  Random random(3);
  double more = 0;
  for (int i = 0; i < 10; ++i) {
    TrainingEpisode episode(
        {.gpus = 1, .fewest_models = 4, .most_models = 4, .most_load = 0.9, .scarce_memory = 0},
        random);
    const Assignment assignment = [&] {
      LearnedPlacer placer("test", SmallNetworks(), {});
      return placer.Place(episode.view());
    }();
    const double with = Judge(episode.view(), assignment).violations;
    std::vector<LatencyModel> alone;
    alone.reserve(4);
    for (ModelView& model : episode.view().models) {
      alone.emplace_back(model.latency->alone(), LoadLine{}, LoadLine{}, SlowdownTerms{});
      model.latency = &alone.back();
    }
    more += with - Judge(episode.view(), assignment).violations;
  }
  EXPECT_GT(more, 0);
}

// Two equal models, of which the first has three times the rate, on a share too small for it.
TEST(Judge, CountsByReplicasModelsAndRequests) {
  Random random(1);
  TrainingEpisode episode(
      {.gpus = 2, .fewest_models = 1, .most_models = 1, .published = 0, .scarce_memory = 0},
      random);
  PlacementView& view = episode.view();
  view.models.push_back(view.models.front());
  const double rate = view.models[0].latency->alone().Throughput(4, 0.5);
  view.models[0].rate = 3 * rate;
  view.models[1].rate = 0.01 * rate;
  const std::uint32_t all = view.gpus[0].granules;
  Assignment assignment;
  assignment.replicas = {{.model = 0, .gpu = 0, .granules = 1, .rows = 4, .fraction = 0.5},
                         {.model = 0, .gpu = 1, .granules = 1, .rows = 4, .fraction = 0.5},
                         {.model = 1, .gpu = 0, .granules = all - 1, .rows = 4, .fraction = 1}};
  const Judged judged = Judge(view, assignment);
  ASSERT_GT(judged.of_models, 0.3);
  EXPECT_NEAR(judged.violations / judged.of_models, 4.0 / 3, 0.01);  // two replicas of three
  EXPECT_NEAR(judged.of_requests / judged.of_models, 2 * 300.0 / 301, 0.01);
  assignment.replicas.pop_back();  // refused
  EXPECT_NEAR(Judge(view, assignment).of_models, judged.of_models + 0.5, 0.01);
  EXPECT_NEAR(Judge(view, assignment).of_requests, judged.of_requests + 1 / 301.0, 0.01);
}

TEST(Examiner, TheGuessIsWhatNetworksThatSayNothingDecideLocally) {
  const Examiner examiner(Small(), ExaminedFor::kJudgement);
  PlacementNetworks networks = SmallNetworks();
  for (float& parameter : networks.local.parameters()) parameter = 0;
  const Examination examined = examiner.Examine(networks);
  double last = -1;
  for (const BandExamination& band : examined.bands) {
    EXPECT_NEAR(band.local, band.guess, 1e-3);
    EXPECT_NEAR(band.networks, band.global, 1e-3);
    EXPECT_NE(band.global, band.guess);
    EXPECT_LT(band.lagoon, band.guess);
    EXPECT_GT(band.guess, last);  // more at higher loads
    last = band.guess;
  }
}

TEST(Examination, NetworksAreComparedWithTheGuessInEachBandAlike) {
  Examination examined;
  examined.bands = {BandExamination{.networks = 0.0001, .guess = 0.0003},  // 2e-4 of 4e-4
                    BandExamination{.networks = 0.0039, .guess = 0.0039},
                    BandExamination{.networks = 0.1499, .guess = 0.0999}};
  EXPECT_NEAR(examined.OverGuess(), (0.5 + 1 + 1.5) / 3, 1e-12);
  for (BandExamination& band : examined.bands) band = {};  // no losses at all
  EXPECT_NEAR(examined.OverGuess(), 1, 1e-12);
}

TEST(Examiner, NetworksAreChosenByOtherViewsThanTheyAreJudgedBy) {
  const PlacementNetworks networks = SmallNetworks();
  const Examination chosen = Examiner(Small(), ExaminedFor::kChoice).Examine(networks);
  const Examination judged = Examiner(Small(), ExaminedFor::kJudgement).Examine(networks);
  EXPECT_NE(chosen.violations, judged.violations);
  for (std::size_t i = 0; i < kBandsFrom.size(); ++i) {
    EXPECT_NE(chosen.bands[i].guess, judged.bands[i].guess) << i;
  }
}

TEST(Examiner, ABandHasViewsOfItsLoadsOnly) {
  Random random(0x7e57 + 2);
  double guess = 0;
  for (int i = 0; i < 40; ++i) {
    const TrainingEpisode episode({.least_load = 1, .most_load = 1.4}, random);
    guess += Guess(episode.view(), true).of_models / 40;
  }
  EXPECT_NEAR(Examiner(Small(), ExaminedFor::kJudgement).Examine(SmallNetworks()).bands[1].guess,
              guess, 1e-9);
}

TEST(Examiner, TheViewsAreTheSameForAllTrainings) {
  TrainOptions other = Small();
  other.seed = 7;
  other.episodes = 9;
  other.rules.loads = true;
  const PlacementNetworks networks = SmallNetworks();
  const Examination one = Examiner(Small(), ExaminedFor::kJudgement).Examine(networks);
  const Examination two = Examiner(other, ExaminedFor::kJudgement).Examine(networks);
  EXPECT_EQ(one.reward, two.reward);
  EXPECT_EQ(one.bands[2].lagoon, two.bands[2].lagoon);
  EXPECT_EQ(one.bands[1].networks, two.bands[1].networks);
  other.reward.by_requests = true;
  EXPECT_NE(Examiner(other, ExaminedFor::kJudgement).Examine(networks).bands[2].networks,
            one.bands[2].networks);
}

}  // namespace
}  // namespace lagoon
