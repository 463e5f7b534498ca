#pragma once

// What the networks of a training decide alone on fixed views of other models than those of
// training, beside a first guess and the placer `lagoon`.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "cluster/learned/learned_placer.h"
#include "sim/training/train_options.h"

namespace lagoon {

/// Loads from here on, and below the next one's, are a band.
inline constexpr std::array<double, 3> kBandsFrom = {0, 1, 1.4};

/// Means over a band's views. Violations are the part of a model's requests, mean over the models;
/// of a training that rewards by requests, the part of all requests.
struct BandExamination {
  double networks = 0;  // both stages
  double global = 0;    // the global stage's network; shares by the first guess
  double local = 0;     // the local stage's network; each replica to the GPU with the least need
  double guess = 0;     // no network
  double lagoon = 0;    // the placer of that name
};

struct Examination {
  /// To choose among networks by: their violations over those of the guess, mean over the bands, so
  /// that a band in which few requests are late counts as much as the others. Below 1: better than
  /// the guess. 0.01 % is added to both sides of each ratio.
  double OverGuess() const;

  /// Means over views of all loads: Judged::reward and Judged::violations.
  double reward = 0, violations = 0;
  double guessed_reward = 0, guessed_violations = 0;
  std::array<BandExamination, kBandsFrom.size()> bands = {};
};

/// Networks are chosen by other views than those by which the chosen are judged.
enum class ExaminedFor { kChoice, kJudgement };

/// The same views for all seeds and rules of training. Not thread-safe.
class Examiner {
 public:
  /// Judges the guess and `lagoon`, which no training changes.
  Examiner(const TrainOptions& options, ExaminedFor purpose);
  Examiner(const Examiner&) = delete;  // views point to the episodes' latency models
  Examiner& operator=(const Examiner&) = delete;

  Examination Examine(const PlacementNetworks& networks) const;

 private:
  using Views = std::deque<TrainingEpisode>;
  double Lost(const PlacementView& view, const Assignment& assignment) const;
  double MeanLost(const Views& views, Placer& placer) const;
  void DrawBand(std::size_t band, const TrainingRanges& ranges, std::uint32_t seed);

  bool interference_, by_requests_;
  Views views_;  // of all loads
  std::array<Views, kBandsFrom.size()> of_bands_;
  Examination known_;  // what does not depend on the networks
};

}  // namespace lagoon
