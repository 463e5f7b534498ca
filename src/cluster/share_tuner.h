#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "cluster/batch_limiter.h"
#include "cluster/ranges.h"
#include "cluster/shares.h"

namespace lagoon {

/// Adapts the shares of a device's models to what they need (GSLICE 3.2). Not thread-safe; no clock
/// and no device: the caller measures, moves and says so.
///
/// - A model is tuned (TuneShare) if the result differs from its share by more than the trigger, or
///   its batch limiter sent a notice. Then MaxMin shares the device anew.
/// - A model that moved stays as it is during the hold-down. The others share the rest. If they
///   cannot be placed around it, they wait.
/// - With Options::grow_at_once, only a model that shrank because it needed less is held, and even
///   that one may grow as soon as it misses its SLO: then a share that is too small doubles each
///   time, and does not wait ten seconds for its next step.
/// - When a model is added or removed, or a demand is set, the others move at once, whatever the
///   hold-down.
/// - Fixed models get what they demand; the others share the rest.
class ShareTuner {
 public:
  struct Options {
    std::uint32_t granules = 100;  // of the device, 1 to 4096
    double trigger = 0.05;         // change of a share from which on it is worth a move, 0 to 1
    Nanoseconds hold_down{10'000'000'000};  // between two moves of a model, 0 or more
    MaxMinRules max_min = {};
    double utilisation = 1;     // ShareLoad::utilisation
    bool grow_at_once = false;  // the paper holds down every model that moved
  };

  /// Why a share moves.
  enum class Cause : std::uint8_t {
    kMembers,  // a model was added or removed
    kFixed,    // the model's share was fixed at another size, or is tuned from now on
    kDemand,   // the model's need differs from its share by more than the trigger
    kNotice,   // the model's batch limiter sent a notice; the trigger does not apply
    kOthers,   // to make room for other models, or because they need less
  };

  struct Move {
    std::string model;
    std::optional<GranuleRange> from;  // empty: the model had no share
    GranuleRange to;
    Cause cause = Cause::kMembers;
  };

  struct Plan {
    /// To carry out in this order: then no two shares overlap at any time.
    std::vector<Move> moves;
    /// Not every model can have a granule, because there are too many models or the fixed shares
    /// leave too few, so that no model has a share. Instead, by the index in models(): each model's
    /// part of the device, above 0, with the sum 1. Otherwise empty.
    std::vector<double> weights;
  };

  struct State {
    std::string model;
    double demand = 0;                  // part of the device
    bool fixed = false;                 // the demand is not tuned, and is met before all others
    std::optional<GranuleRange> range;  // empty: none yet
    std::optional<TimePoint> moved;     // the last move between two ranges
    bool shrank = false;                // that move: the model needed less
  };

  /// kInvalidArgument names the option and its value.
  static Result<ShareTuner> Make(const Options& options);

  /// `demand`: part of the device that the model needs at first, above 0, at most 1: its knee, or
  /// kUnknownDemand. kAlreadyExists; kInvalidArgument: also if the fixed models would not leave a
  /// granule for each other one.
  Status Add(const std::string& model, double demand, bool fixed = false);
  /// From now on the model has this demand, fixed or to be tuned. kNotFound; kInvalidArgument as
  /// for Add(); then nothing changes.
  Status SetDemand(const std::string& model, double demand, bool fixed);
  /// kInvalidArgument names the option and its value.
  Status SetRules(double trigger, Nanoseconds hold_down);
  /// The model's granules are free at once. kNotFound.
  Status Remove(const std::string& model);

  /// What the model did since its last move; not to be called for a model without traffic.
  /// `load.share` and `load.utilisation` are not used. The latest call counts, and any notice since
  /// the last move. kNotFound; kInvalidArgument names the field and its value, and nothing changes.
  Status Observe(const std::string& model, const ShareLoad& load, BatchNotice notice);

  /// What to move at `now`. Calling it again without Done() gives the same moves.
  Plan Decide(TimePoint now);
  /// The next move of the plan has been carried out. If one fails, leave out the ones after it and
  /// call Decide() again. kNotFound: the model was removed. kInvalidArgument: the move overlaps
  /// another model's share or leaves the device.
  Status Done(const Move& move, TimePoint now);

  const std::vector<State>& models() const { return states_; }
  const Options& options() const { return options_; }

 private:
  // What is known of the model with the same index in states_.
  struct Observed {
    std::optional<ShareLoad> load;
    bool notice = false;
    std::optional<Cause> cause;  // of the move that is due
  };

  explicit ShareTuner(const Options& options) : options_(options) {}
  Result<std::size_t> Find(const std::string& model) const;
  bool IsHeld(const State& state, TimePoint now) const;
  std::uint32_t GranulesOf(double demand) const;
  Status CheckDemand(const std::string& model, double demand, bool fixed) const;
  bool FitsGranules() const;
  Plan Weights();
  std::optional<Plan> PlanMoves(TimePoint now) const;
  bool Tune(TimePoint now);
  std::vector<RangeWanted> Wanted(TimePoint now) const;

  Options options_;
  std::vector<State> states_;
  std::vector<Observed> observed_;
  bool members_changed_ = false;  // or a demand was set
};

}  // namespace lagoon
