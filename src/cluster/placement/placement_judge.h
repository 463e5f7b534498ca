#pragma once

// Whether a proposed placement is worth the moves.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cluster/placement/placer.h"

namespace lagoon {

struct PlacementRules {
  Nanoseconds period{std::chrono::seconds(1)};        // between two decisions
  Nanoseconds hold_down{std::chrono::seconds(10)};    // least time between two moves
  int confirmations = 2;                              // decisions that must agree on a move
  Nanoseconds limit{std::chrono::milliseconds(500)};  // of the placer's time for one decision
  /// A model that could not be loaded is placed anew after this pause, which doubles with each
  /// failure in a row, at most kMostDoublings times.
  Nanoseconds retry{std::chrono::seconds(10)};
  /// A replica that goes answers the requests that it has; after this time they are cancelled.
  Nanoseconds longest_drain{std::chrono::minutes(5)};
  static constexpr int kMostDoublings = 6;
};

/// Decides whether a placement replaces the one before (hysteresis). Rates are measured, so placers
/// waver, and each move loads a model:
/// - A placement that breaks the rules of CheckAssignment never does.
/// - One that gives a replica to a model without any does at once.
/// - One with the same replicas and other fractions does at once, if a fraction changes by
/// kFraction or more.
/// - Another one does when PlacementRules::confirmations placements in a row had the same replicas,
///   by the names of models and GPUs, and hold_down has passed since the last move.
/// No clock: a time before the last one restarts hold_down. Not thread-safe.
class PlacementJudge {
 public:
  static constexpr double kFraction = 0.05;

  explicit PlacementJudge(const PlacementRules& rules) : rules_(rules) {}

  enum class Judgement : std::uint8_t {
    kApply,   // replicas or fractions change
    kKeep,    // the placement has the replicas that are there
    kWait,    // it is not worth its moves, or not yet
    kBroken,  // there is no placement, or one that breaks the rules
  };
  struct Verdict {
    Judgement judgement = Judgement::kWait;
    std::string reason;
  };
  Verdict Judge(const PlacementView& view, const Assignment& proposed, TimePoint now);
  /// The placements so far do not count any more, as they are another placer's.
  void Forget() { agreed_ = 0; }

 private:
  using Places = std::vector<std::pair<std::string, std::string>>;  // names of model and GPU

  static Places NamesOf(const PlacementView& view, const Assignment& assignment);
  /// The first move from `before` to `after`, which differ, for a reason.
  static std::string MovesOf(const Places& before, const Places& after);
  Verdict JudgeMoves(const Places& before, Places proposed, TimePoint now);

  const PlacementRules rules_;
  Places last_;     // the places of the last proposal
  int agreed_ = 0;  // proposals in a row with these places
  TimePoint moved_{};
  bool moved_once_ = false;
};

}  // namespace lagoon
