#include "sim/training/examine.h"

#include <algorithm>

#include "cluster/placement/lagoon_placer.h"
#include "sim/training/judge.h"

namespace lagoon {
namespace {

constexpr int kViews = 40;  // of all loads, and of each band
// Each purpose takes this seed and one more for each band.
constexpr std::uint32_t kJudgementSeed = 0x7e57, kChoiceSeed = 0xc401ce;

}  // namespace

double Examination::OverGuess() const {
  constexpr double kFloor = 1e-4;
  double sum = 0;
  for (const BandExamination& band : bands) {
    sum += (band.networks + kFloor) / (band.guess + kFloor);
  }
  return sum / static_cast<double>(bands.size());
}

Examiner::Examiner(const TrainOptions& options, ExaminedFor purpose)
    : interference_(options.interference), by_requests_(options.reward.by_requests) {
  const std::uint32_t seed = purpose == ExaminedFor::kChoice ? kChoiceSeed : kJudgementSeed;
  Random random(seed);
  for (int i = 0; i < kViews; ++i) {
    const PlacementView& view = views_.emplace_back(options.ranges, random).view();
    const Judged guess = Guess(view, interference_);
    known_.guessed_reward += guess.reward / kViews;
    known_.guessed_violations += guess.violations / kViews;
  }
  for (std::size_t band = 0; band < of_bands_.size(); ++band) {
    DrawBand(band, options.ranges, seed + 1 + static_cast<std::uint32_t>(band));
  }
}

void Examiner::DrawBand(std::size_t band, const TrainingRanges& ranges, std::uint32_t seed) {
  const bool last = band + 1 == kBandsFrom.size();
  const TrainingRanges all;
  TrainingRanges drawn = ranges;
  drawn.least_load = std::max(all.least_load, kBandsFrom[band]);
  drawn.most_load = last ? all.most_load : kBandsFrom[band + 1];
  Random random(seed);
  Views& views = of_bands_[band];
  for (int i = 0; i < kViews; ++i) views.emplace_back(drawn, random);
  BandExamination& known = known_.bands[band];
  for (const TrainingEpisode& episode : views) {
    const Judged guess = Guess(episode.view(), interference_);
    known.guess += (by_requests_ ? guess.of_requests : guess.of_models) / kViews;
  }
  LagoonPlacer lagoon;
  known.lagoon = MeanLost(views, lagoon);
}

double Examiner::Lost(const PlacementView& view, const Assignment& assignment) const {
  const Judged judged = Judge(view, assignment);
  return by_requests_ ? judged.of_requests : judged.of_models;
}

double Examiner::MeanLost(const Views& views, Placer& placer) const {
  double lost = 0;
  for (const TrainingEpisode& episode : views) {
    lost += Lost(episode.view(), placer.Place(episode.view())) / kViews;
  }
  return lost;
}

Examination Examiner::Examine(const PlacementNetworks& networks) const {
  const auto placer = [&](bool global, bool local) {
    return LearnedPlacer(
        "examined", networks,
        {.interference = interference_, .guarded = false, .global = global, .local = local});
  };
  LearnedPlacer both = placer(true, true), global = placer(true, false),
                local = placer(false, true);
  Examination examined = known_;
  for (const TrainingEpisode& episode : views_) {
    const Judged judged = Judge(episode.view(), both.Place(episode.view()));
    examined.reward += judged.reward / kViews;
    examined.violations += judged.violations / kViews;
  }
  for (std::size_t band = 0; band < of_bands_.size(); ++band) {
    BandExamination& found = examined.bands[band];
    found.networks = MeanLost(of_bands_[band], both);
    found.global = MeanLost(of_bands_[band], global);
    found.local = MeanLost(of_bands_[band], local);
  }
  return examined;
}

}  // namespace lagoon
