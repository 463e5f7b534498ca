#include "cluster/share_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "base/text.h"
#include "cluster/checks.h"

namespace lagoon {

namespace {

Status CheckRules(double trigger, Nanoseconds hold_down) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("trigger", trigger, {0, 1}));
  return CheckBounds("hold_down in ms", ToMilliseconds(hold_down), {0, 1e9});
}

}  // namespace

Result<ShareTuner> ShareTuner::Make(const Options& options) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("granules", options.granules, {1, 4096}));
  LAGOON_RETURN_IF_ERROR(CheckRules(options.trigger, options.hold_down));
  LAGOON_RETURN_IF_ERROR(CheckBounds("utilisation", options.utilisation, {0.01, 1}));
  return ShareTuner(options);
}

Status ShareTuner::SetRules(double trigger, Nanoseconds hold_down) {
  LAGOON_RETURN_IF_ERROR(CheckRules(trigger, hold_down));
  options_.trigger = trigger;
  options_.hold_down = hold_down;
  return {};
}

std::uint32_t ShareTuner::GranulesOf(double demand) const {
  const auto granules = static_cast<std::uint32_t>(std::lround(demand * options_.granules));
  return std::max(granules, 1u);
}

// Whether the model may have this demand beside the others that are there.
Status ShareTuner::CheckDemand(const std::string& model, double demand, bool fixed) const {
  LAGOON_RETURN_IF_ERROR(
      CheckBounds(fmt::format("model {}: the demand", Quoted(model)), demand, {1e-9, 1}));
  std::uint64_t taken = fixed ? GranulesOf(demand) : 0;
  std::size_t others = fixed ? 0 : 1;
  double fixed_parts = fixed ? demand : 0;
  for (const State& state : states_) {
    if (state.model == model) continue;
    taken += state.fixed ? GranulesOf(state.demand) : 0;
    fixed_parts += state.fixed ? state.demand : 0;
    others += state.fixed ? 0 : 1;
  }
  const auto too_much = [&](const std::string& why) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model {} cannot have {:.1f} % of the device: {}; make the fixed "
                            "share of a model smaller",
                            Quoted(model), 100 * demand, why));
  };
  if (fixed_parts > 1 + 1e-9) {
    return too_much(fmt::format("the fixed shares are {:.1f} % together", 100 * fixed_parts));
  }
  const std::size_t models = states_.size() + (Find(model) ? 0 : 1);
  if (models <= options_.granules && taken + others > options_.granules) {
    return too_much(
        fmt::format("of {} granules the fixed shares take {}, and {} other models need "
                    "one each",
                    options_.granules, taken, others));
  }
  return {};
}

Result<std::size_t> ShareTuner::Find(const std::string& model) const {
  const auto found = std::ranges::find(states_, model, &State::model);
  if (found != states_.end()) return static_cast<std::size_t>(found - states_.begin());
  return Fail(ErrorCode::kNotFound, fmt::format("no model {} on this device", Quoted(model)));
}

Status ShareTuner::Add(const std::string& model, double demand, bool fixed) {
  if (Find(model)) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("model {} is already on this device", Quoted(model)));
  }
  LAGOON_RETURN_IF_ERROR(CheckDemand(model, demand, fixed));
  observed_.reserve(observed_.size() + 1);  // where memory runs out, there is no half of a model
  states_.push_back({.model = model, .demand = demand, .fixed = fixed, .range = {}, .moved = {}});
  observed_.emplace_back();
  members_changed_ = true;
  return {};
}

Status ShareTuner::SetDemand(const std::string& model, double demand, bool fixed) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t index, Find(model));
  LAGOON_RETURN_IF_ERROR(CheckDemand(model, demand, fixed));
  states_[index].demand = demand;
  states_[index].fixed = fixed;
  observed_[index] = {.load = {}, .notice = false, .cause = Cause::kFixed};
  members_changed_ = true;
  return {};
}

Status ShareTuner::Remove(const std::string& model) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t index, Find(model));
  states_.erase(states_.begin() + static_cast<std::ptrdiff_t>(index));
  observed_.erase(observed_.begin() + static_cast<std::ptrdiff_t>(index));
  members_changed_ = true;
  return {};
}

Status ShareTuner::Observe(const std::string& model, const ShareLoad& load, BatchNotice notice) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t index, Find(model));
  ShareLoad taken = load;
  taken.share = 1;
  taken.utilisation = options_.utilisation;
  if (auto tuned = TuneShare(taken, 1); !tuned) {
    return Annotate(fmt::format("model {}", Quoted(model)), std::move(tuned).error());
  }
  observed_[index].load = taken;
  if (notice != BatchNotice::kNone) observed_[index].notice = true;
  return {};
}

bool ShareTuner::IsHeld(const State& state, TimePoint now) const {
  if (options_.grow_at_once && !state.shrank) return false;
  return state.moved && now - *state.moved < options_.hold_down;
}

// Sets the demands of the models whose share is to change. Whether there is one.
bool ShareTuner::Tune(TimePoint now) {
  bool changed = false;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    Observed& observed = observed_[i];
    if (state.fixed || !observed.load || !state.range) continue;
    const bool held = IsHeld(state, now);
    const bool misses = observed.load->latency_ms > observed.load->slo_ms;
    if (held && !(options_.grow_at_once && misses)) continue;
    observed.load->share = 1.0 * state.range->count / options_.granules;
    const auto wanted = TuneShare(*observed.load, 1.0 / options_.granules);
    LAGOON_CHECK(wanted.has_value());  // Observe() has checked the load
    const double change = std::abs(*wanted - observed.load->share);
    if (change == 0 || (change <= options_.trigger && !observed.notice)) continue;
    observed.cause = change > options_.trigger ? Cause::kDemand : Cause::kNotice;
    state.demand = *wanted;
    changed = true;
  }
  return changed;
}

std::vector<RangeWanted> ShareTuner::Wanted(TimePoint now) const {
  std::vector<RangeWanted> wanted;
  std::vector<double> demands;
  std::uint32_t left = options_.granules;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const State& state = states_[i];
    RangeWanted& model = wanted.emplace_back(RangeWanted{.now = state.range});
    const bool grows = options_.grow_at_once && observed_[i].cause.has_value();
    model.pinned = !members_changed_ && IsHeld(state, now) && !grows;
    if (model.pinned || state.fixed) {
      model.count = model.pinned ? state.range->count : GranulesOf(state.demand);
      left -= model.count;
    } else {
      demands.push_back(state.demand * options_.granules);
    }
  }
  if (demands.empty()) return wanted;
  const auto exact = MaxMin(demands, left, options_.max_min);
  LAGOON_CHECK(exact.has_value());
  const auto counts = ToGranules(*exact, left);
  LAGOON_CHECK(counts.has_value());
  auto count = counts->begin();
  for (RangeWanted& model : wanted) {
    if (model.count == 0) model.count = *count++;
  }
  return wanted;
}

// Whether each model can have granules of its own. Fixed shares that were given as weights may
// leave no granule for another model even when there are few models left.
bool ShareTuner::FitsGranules() const {
  std::uint64_t needed = 0;
  for (const State& state : states_) needed += state.fixed ? GranulesOf(state.demand) : 1;
  return needed <= options_.granules;
}

ShareTuner::Plan ShareTuner::Weights() {
  std::vector<double> demands;
  double left = 1;
  for (State& state : states_) {
    state.range.reset();
    if (state.fixed) {
      left -= state.demand;
    } else {
      demands.push_back(state.demand);
    }
  }
  // Models that are not fixed have some of the device in any case.
  const double rest = std::max(left, 0.01);
  const auto parts = MaxMin(
      demands, rest,
      {.shortage = options_.max_min.shortage, .surplus = MaxMinRules::Surplus::kProportional});
  LAGOON_CHECK(parts.has_value());
  Plan plan;
  auto part = parts->begin();
  double sum = 0;
  for (const State& state : states_) {
    sum += plan.weights.emplace_back(state.fixed ? state.demand : *part++);
  }
  for (double& weight : plan.weights) weight /= sum;
  return plan;
}

// The moves to the shares that the demands give.
std::optional<ShareTuner::Plan> ShareTuner::PlanMoves(TimePoint now) const {
  const auto packed = Repack(Wanted(now), options_.granules);
  if (!packed) return std::nullopt;  // a model that is held stands in the way
  Plan plan;
  for (const std::size_t i : packed->order) {
    const Cause cause =
        observed_[i].cause.value_or(members_changed_ ? Cause::kMembers : Cause::kOthers);
    plan.moves.push_back({states_[i].model, states_[i].range, packed->ranges[i], cause});
  }
  return plan;
}

ShareTuner::Plan ShareTuner::Decide(TimePoint now) {
  if (!FitsGranules()) return Weights();
  if (members_changed_) {  // models are tuned once all have their places
    Plan plan = *PlanMoves(now);
    if (!plan.moves.empty()) return plan;
    members_changed_ = false;
  }
  if (!Tune(now)) return {};
  return PlanMoves(now).value_or(Plan{});
}

Status ShareTuner::Done(const Move& move, TimePoint now) {
  LAGOON_ASSIGN_OR_RETURN(const std::size_t index, Find(move.model));
  const std::uint64_t end = std::uint64_t{move.to.first} + move.to.count;
  if (move.to.count == 0 || end > options_.granules) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model {}: moved to {} granules from {} on, the device has {}",
                            Quoted(move.model), move.to.count, move.to.first, options_.granules));
  }
  for (const State& other : states_) {
    if (other.model == move.model || !other.range || !other.range->Overlaps(move.to)) continue;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model {}: moved to {} granules from {} on, which overlap those of {}",
                            Quoted(move.model), move.to.count, move.to.first, Quoted(other.model)));
  }
  // The first place is not a change: Fig. 16 of the paper tunes 2 s after the start.
  if (states_[index].range) {
    const bool needs_less = move.cause == Cause::kDemand || move.cause == Cause::kNotice;
    states_[index].shrank = needs_less && move.to.count < states_[index].range->count;
    states_[index].moved = now;
  }
  states_[index].range = move.to;
  observed_[index] = {};
  return {};
}

}  // namespace lagoon
