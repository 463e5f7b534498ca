#include "cluster/learned/built_in_weights.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "base/testing/paths.h"
#include "sim/training/decisions.h"
#include "sim/training/judge.h"
#include "sim/training/training_views.h"

namespace lagoon {
namespace {

class BuiltIn : public ::testing::TestWithParam<const char*> {
 protected:
  PlacementNetworks Networks() const {
    auto networks = DecodeNetworks(GetParam(), BuiltInWeights(GetParam()));
    EXPECT_TRUE(networks.has_value()) << networks.error().message;
    return std::move(networks).value();
  }
  bool interference() const { return std::string_view(GetParam()) == "inss"; }
};

TEST_P(BuiltIn, WeightsDecideAsWhenTheyWereTrained) {
  const PlacementNetworks networks = Networks();
  std::ifstream file(SourceFolder() + "/models/placement/" + GetParam() + ".decisions");
  std::string line;
  int lines = 0;
  for (; std::getline(file, line); ++lines) {
    const auto seed = static_cast<std::uint32_t>(std::strtoul(line.c_str(), nullptr, 10));
    EXPECT_EQ(DecisionLine(networks, interference(), seed), line);
  }
  EXPECT_EQ(lines, 50);
}

// Training has not shown them requests that wait.
TEST_P(BuiltIn, WeightsDecideAlikeWhateverWaits) {
  Random random(5);
  for (int i = 0; i < 20; ++i) {
    const TrainingEpisode episode({}, random);
    LearnedPlacer placer("test", Networks(),
                         {.interference = interference(), .guarded = i % 2 == 0});
    PlacementView view = episode.view();
    const Assignment before = placer.Place(view);
    for (ModelView& model : view.models) model.queued = random.Uniform(0, 10 * model.rate + 100);
    EXPECT_EQ(placer.Place(view), before);
  }
}

TEST_P(BuiltIn, WeightsMakeAPlacerOfThatName) {
  const auto placer = MakeLearnedPlacer(GetParam());
  ASSERT_TRUE(placer.has_value()) << placer.error().message;
  EXPECT_EQ((*placer)->name(), GetParam());
}

// On views that training did not see, and without trying simpler decisions.
TEST(BuiltInWeights, OfInssAreBetterThanTheGuessThatTheyBeginWith) {
  auto networks = DecodeNetworks("inss", BuiltInWeights("inss"));
  ASSERT_TRUE(networks.has_value()) << networks.error().message;
  LearnedPlacer placer("test", *std::move(networks), {.guarded = false});
  Random random(0x7e57);
  double learned = 0, guess = 0;
  for (int i = 0; i < 40; ++i) {
    const TrainingEpisode episode({}, random);
    learned += Judge(episode.view(), placer.Place(episode.view())).reward;
    guess += Guess(episode.view(), true).reward;
  }
  EXPECT_GT(learned, guess);
}

std::string TestName(const ::testing::TestParamInfo<const char*>& tested) {
  return std::string(tested.param) == "inss" ? "Inss" : "InssNi";
}

INSTANTIATE_TEST_SUITE_P(All, BuiltIn, ::testing::Values("inss", "inss-ni"), TestName);

}  // namespace
}  // namespace lagoon
