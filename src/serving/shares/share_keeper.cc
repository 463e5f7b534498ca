#include "serving/shares/share_keeper.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/thread.h"
#include "cluster/knee.h"
#include "device/host/shares.h"
#include "trace/recorder.h"

namespace lagoon {
namespace {

constexpr Nanoseconds kPeriod = std::chrono::seconds(1);
constexpr std::uint32_t kWeightSteps = 100;  // a weight is a whole number of percent

std::uint32_t GranulesOf(const ShareKeeper::Options& options) {
  if (options.kind == ShareKind::kWeight) return kWeightSteps;
  return (options.units + options.granule - 1) / options.granule;
}

std::string Percent(double part) { return fmt::format("{:.3g} %", 100 * part); }

/// What the larger of both needs says.
std::string WhyNeeded(const ShareLoad& load) {
  const double of_slo = load.latency_ms / load.slo_ms;
  const double of_capacity = load.arrivals_per_s / load.rows_per_s;
  if (of_slo >= of_capacity / load.utilisation) {
    return fmt::format("the latency, {:.3g} ms, is {:.2f} of the SLO", load.latency_ms, of_slo);
  }
  return fmt::format("{:.3g} rows arrive a second, which is {:.2f} of the {:.3g} that it can do",
                     load.arrivals_per_s, of_capacity, load.rows_per_s);
}

std::string WhyMoved(const ShareTuner::Move& move, const ShareLoad& load, BatchNotice notice) {
  switch (move.cause) {
    case ShareTuner::Cause::kMembers:
      return move.from ? "the models that have shares changed" : "it is the first share";
    case ShareTuner::Cause::kFixed:
      return "an operator or the placer of its fleet set it";
    case ShareTuner::Cause::kDemand:
      return WhyNeeded(load);
    case ShareTuner::Cause::kNotice:
      return fmt::format("its batches {} the SLO: {}",
                         notice == BatchNotice::kUnder ? "miss" : "keep", WhyNeeded(load));
    case ShareTuner::Cause::kOthers:
      break;
  }
  return "the shares of others changed";
}

}  // namespace

Result<std::unique_ptr<ShareKeeper>> ShareKeeper::Make(const Options& options) {
  LAGOON_CHECK(options.granule > 0);
  LAGOON_ASSIGN_OR_RETURN(ShareTuner tuner,
                          ShareTuner::Make({.granules = GranulesOf(options),
                                            .hold_down = options.hold_down,
                                            .max_min = {.surplus = options.surplus},
                                            .utilisation = options.utilisation,
                                            .grow_at_once = options.grow_at_once}));
  std::unique_ptr<ShareKeeper> keeper(new ShareKeeper(options, std::move(tuner)));
  const MutexLock lock(keeper->mutex_);
  keeper->Publish({});
  return keeper;
}

void ShareKeeper::Start(const Device& device) {
  thread_ = std::jthread([this, &device](const std::stop_token& stop) { Run(stop, device); });
}

void ShareKeeper::Run(const std::stop_token& stop, const Device& device) {
  NameThisThread("lagoon-shares");
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(pause_mutex_);
    wake_.NotifyAll();
  });
  while (!stop.stop_requested()) {
    const TimePoint next = lagoon::Now() + kPeriod;
    {
      const MutexLock lock(pause_mutex_);
      while (!stop.stop_requested() && lagoon::Now() < next) wake_.WaitUntil(pause_mutex_, next);
    }
    if (stop.stop_requested()) return;
    const Status stepped = WithoutExceptions([&]() -> Status {
      Step(device.Now());
      return {};
    });
    if (!stepped) spdlog::warn("the shares are not tuned: {}", stepped.error().message);
  }
}

// ---- The models

Status ShareKeeper::Replace(Models gone, Models come, TimePoint now) {
  const MutexLock lock(mutex_);
  Entries before = Remove(gone);
  Status status = AddAndMove(come, now);
  if (!status && !come.empty()) {
    Remove(come);
    PutBack(std::move(before));
    Conclude(AddAndMove({}, now), now);
    return status;
  }
  Conclude(status, now);
  return {};
}

Status ShareKeeper::AddAndMove(Models come, TimePoint now) {
  try {
    LAGOON_RETURN_IF_ERROR(Add(come));
    return CarryOut(now);
  } catch (const std::bad_alloc&) {
    return Fail(ErrorCode::kResourceExhausted, "out of memory");
  }
}

void ShareKeeper::Conclude(const Status& moved, TimePoint now) {
  try {
    Warn(moved);
    Publish(now);
  } catch (const std::bad_alloc&) {
    return;  // the next step does the same again
  }
}

Status ShareKeeper::Add(Models come) {
  for (SharedModel* const model : come) {
    Entries one(1);
    Entry& entry = one.front();
    entry.model = model;
    entry.terms = model->ShareTerms();
    entry.key = fmt::format("{}/{}", entry.terms.name, entry.terms.version);
    const ShareSettings& share = entry.terms.share;
    entry.weight = share.weight.value_or(1);
    if (share.any()) {
      const double first = share.fixed.value_or(entry.terms.knee.value_or(kUnknownDemand));
      LAGOON_RETURN_IF_ERROR(tuner_.Add(entry.key, first, share.fixed.has_value()));
      entry.managed = true;
    }
    entries_.splice(entries_.end(), one);
  }
  return {};
}

ShareKeeper::Entries ShareKeeper::Remove(Models gone) {
  Entries removed;
  for (const SharedModel* const model : gone) {
    const auto found = Find(model);
    if (found == entries_.end()) continue;
    if (found->managed) {
      const auto state = std::ranges::find(tuner_.models(), found->key, &ShareTuner::State::model);
      LAGOON_CHECK(state != tuner_.models().end());
      found->demand = state->demand;
      found->fixed = state->fixed;
      LAGOON_CHECK(tuner_.Remove(found->key).has_value());
    }
    removed.splice(removed.end(), entries_, found);
  }
  return removed;
}

/// Entries that Remove() gave, after nothing else was added.
void ShareKeeper::PutBack(Entries entries) {
  for (Entry& entry : entries) {
    if (!entry.managed) continue;
    const auto add = [&entry, tuner = &tuner_] {
      return tuner->Add(entry.key, entry.demand, entry.fixed);
    };
    const Status again = UntilMemorySuffices(add);
    entry.managed = again.has_value();  // it was there, so that it finds room
  }
  entries_.splice(entries_.end(), entries);
}

void ShareKeeper::Warn(const Status& moved) {
  const std::string problem = moved ? std::string() : moved.error().message;
  if (!problem.empty() && problem != problem_) {
    spdlog::warn("a share was not moved, which is tried again every second: {}", problem);
  }
  problem_ = problem;
}

void ShareKeeper::Step(TimePoint now) {
  const MutexLock lock(mutex_);
  if (tuning_) {
    for (Entry& entry : entries_) Observe(entry, now);
  }
  Warn(CarryOut(now));
  Publish(now);
}

/// Leaves a model without traffic alone: nothing is known of it.
void ShareKeeper::Observe(Entry& entry, TimePoint now) {
  if (!entry.managed) return;
  const BatchNotice notice = entry.model->TakeNotice();
  const LoadReading reading = entry.model->ReadLoad(now);
  const bool has_slo = entry.terms.slo > Nanoseconds(0);
  const std::optional<double> latency =
      entry.terms.slo_of == SloOf::kBatch ? reading.batch_ms : reading.request_p95_ms;
  if (!reading.rows_per_s || !(*reading.rows_per_s > 0) || !reading.arrivals_per_s ||
      (has_slo && !latency)) {
    return;
  }
  entry.load = {.latency_ms = has_slo ? *latency : 0,
                .slo_ms = has_slo ? ToMilliseconds(entry.terms.slo) : 1,
                .rows_per_s = *reading.rows_per_s,
                .arrivals_per_s = *reading.arrivals_per_s,
                .host_bound = reading.bottleneck == Bottleneck::kHost,
                .utilisation = options_.utilisation};
  if (notice != BatchNotice::kNone) entry.notice = notice;
  const Status observed = tuner_.Observe(entry.key, entry.load, notice);
  if (!observed) spdlog::warn("a share is not tuned: {}", observed.error().message);
}

Status ShareKeeper::CarryOut(TimePoint now) {
  const ShareTuner::Plan plan = tuner_.Decide(now);
  if (!plan.weights.empty()) return UseWeights(plan.weights, now);
  for (const ShareTuner::Move& move : plan.moves) LAGOON_RETURN_IF_ERROR(CarryOut(move, now));
  return {};
}

Status ShareKeeper::CarryOut(const ShareTuner::Move& move, TimePoint now) {
  Entry& entry = OfKey(move.model);
  const double share = 1.0 * move.to.count / GranulesOf(options_);
  if (options_.kind == ShareKind::kWeight) {
    LAGOON_RETURN_IF_ERROR(entry.model->SetWeight(share));
    entry.weight = share;
  } else {
    LAGOON_RETURN_IF_ERROR(entry.model->MoveShare(UnitsOf(move.to)));
    entry.units = UnitsOf(move.to);
  }
  LAGOON_RETURN_IF_ERROR(tuner_.Done(move, now));
  entry.tuned = entry.tuned || move.cause == ShareTuner::Cause::kDemand ||
                move.cause == ShareTuner::Cause::kNotice;
  // A weight of another place in the order of the models is the same weight.
  if (options_.kind == ShareKind::kWeight && entry.share == share) return {};
  entry.model->ForgetTimes();
  Note(entry, share, WhyMoved(move, entry.load, std::exchange(entry.notice, {})), now);
  return {};
}

/// The models cannot have granules of their own.
Status ShareKeeper::UseWeights(const std::vector<double>& weights, TimePoint now) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    Entry& entry = OfKey(tuner_.models()[i].model);
    if (entry.share && std::abs(*entry.share - weights[i]) < 1e-6) continue;
    LAGOON_RETURN_IF_ERROR(entry.model->MoveShare({}));
    LAGOON_RETURN_IF_ERROR(entry.model->SetWeight(weights[i]));
    entry.units = {};
    entry.weight = weights[i];
    Note(entry, weights[i],
         fmt::format("{} models need more than the {} granules of the device, so that each has a "
                     "weight instead of units (scheduler 'weighted')",
                     weights.size(), GranulesOf(options_)),
         now);
  }
  return {};
}

/// The model has no share any more, and may use the whole device.
Status ShareKeeper::TakeShare(Entry& entry, TimePoint now) {
  if (!entry.managed) return {};
  if (entry.units.count > 0) LAGOON_RETURN_IF_ERROR(entry.model->MoveShare({}));
  entry.units = {};
  const double weight = entry.terms.share.weight.value_or(1);
  if (entry.weight != weight) LAGOON_RETURN_IF_ERROR(entry.model->SetWeight(weight));
  entry.weight = weight;
  LAGOON_CHECK(tuner_.Remove(entry.key).has_value());
  entry.managed = false;
  entry.model->ForgetTimes();
  Note(entry, std::nullopt, "it was taken away by an operator", now);
  return {};
}

void ShareKeeper::Note(Entry& entry, std::optional<double> share, std::string why, TimePoint now) {
  const auto text = [](const std::optional<double>& part) {
    return part ? Percent(*part) : std::string("none");
  };
  const std::string where =
      entry.units.count > 0 ? Text(entry.units) : fmt::format("weight {:.3g}", entry.weight);
  spdlog::info("model '{}' version {}: share {} -> {} ({}): {}", entry.terms.name,
               entry.terms.version, text(entry.share), text(share), where, why);
  entry.last = {entry.share.value_or(0), share.value_or(0), std::move(why), now};
  entry.moves += entry.share ? 1 : 0;
  entry.share = share;
  if (options_.trace == nullptr) return;
  options_.trace->OnShare({.model = entry.terms.name,
                           .from = entry.last->from,
                           .to = entry.last->to,
                           .units = entry.units,
                           .why = entry.last->why,
                           .at = now});
}

ShareKeeper::Entries::iterator ShareKeeper::Find(const SharedModel* model) {
  return std::ranges::find(entries_, model, &Entry::model);
}

ShareKeeper::Entry& ShareKeeper::OfKey(const std::string& key) {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  LAGOON_CHECK(found != entries_.end());
  return *found;
}

UnitRange ShareKeeper::UnitsOf(GranuleRange range) const {
  const std::uint32_t first = range.first * options_.granule;
  const std::uint32_t end = std::min(range.end() * options_.granule, options_.units);
  return {first, end - first};
}

SharesReport ShareKeeper::Read() const {
  std::shared_ptr<const SharesReport> report;
  {
    const MutexLock lock(report_mutex_);
    report = report_;
  }
  return *report;
}

void ShareKeeper::Publish(TimePoint now) {
  for (Entry& entry : entries_) {
    entry.reading = entry.model->ReadLoad(now);
    entry.most_rows = entry.model->MostRows();
  }
  auto report = std::make_shared<const SharesReport>(Report());
  const MutexLock lock(report_mutex_);
  report_.swap(report);
}

SharesReport ShareKeeper::Report() const {
  SharesReport report{.kind = options_.kind,
                      .tuning = tuning_,
                      .trigger = tuner_.options().trigger,
                      .hold_down = tuner_.options().hold_down,
                      .units = options_.units,
                      .granule = options_.granule,
                      .models = {}};
  for (const Entry& entry : entries_) {
    ModelShare& model = report.models.emplace_back();
    model.model = entry.terms.name;
    model.version = entry.terms.version;
    model.share = entry.share;
    model.units = entry.units;
    model.weight = entry.weight;
    model.slo = entry.terms.slo;
    model.slo_of = entry.terms.slo_of;
    model.load = entry.reading;
    model.surface = entry.terms.surface;
    model.most_rows = entry.most_rows;
    model.ceiling = entry.ceiling;
    model.moves = entry.moves;
    model.last = entry.last;
    const auto state = std::ranges::find(tuner_.models(), entry.key, &ShareTuner::State::model);
    if (state == tuner_.models().end()) continue;
    model.fixed = state->fixed;
    model.demand = state->demand;
    model.demand_from = DemandFromOf(entry, state->fixed);
  }
  return report;
}

DemandFrom ShareKeeper::DemandFromOf(const Entry& entry, bool fixed) {
  if (fixed) return DemandFrom::kFixed;
  if (entry.tuned) return DemandFrom::kLoad;
  return entry.terms.knee ? DemandFrom::kSurface : DemandFrom::kDefault;
}

Status ShareKeeper::SetRules(const SharesRules& rules, TimePoint now) {
  const MutexLock lock(mutex_);
  LAGOON_RETURN_IF_ERROR(tuner_.SetRules(rules.trigger.value_or(tuner_.options().trigger),
                                         rules.hold_down.value_or(tuner_.options().hold_down)));
  tuning_ = rules.tuning.value_or(tuning_);
  Publish(now);
  return {};
}

Result<double> ShareKeeper::PartOf(const ShareWanted& wanted) const {
  if (wanted.automatic || wanted.none) return kUnknownDemand;
  if (wanted.part) return *wanted.part;
  LAGOON_CHECK(wanted.units.has_value());
  if (options_.kind == ShareKind::kWeight) {
    return Fail(
        ErrorCode::kInvalidArgument,
        "the shares of this server are weights (--shares); give \"percent\", not \"units\"");
  }
  const std::uint32_t units = *wanted.units;
  const bool whole = units % options_.granule == 0 || units == options_.units;
  if (units == 0 || units > options_.units || !whole) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("\"units\" is {}; it takes multiples of {} up to {}, the units of the "
                            "device",
                            units, options_.granule, options_.units));
  }
  const std::uint32_t granules = (units + options_.granule - 1) / options_.granule;
  return 1.0 * granules / GranulesOf(options_);
}

Status ShareKeeper::Resize(const SharedModel& model, const ShareWanted& wanted, TimePoint now) {
  LAGOON_ASSIGN_OR_RETURN(double part, PartOf(wanted));
  const MutexLock lock(mutex_);
  const auto entry = Find(&model);
  if (entry == entries_.end()) {
    return Fail(ErrorCode::kUnavailable, "it is being replaced or unloaded; try again");
  }
  if (wanted.none) {
    LAGOON_RETURN_IF_ERROR(TakeShare(*entry, now));
  } else {
    // A share that is tuned from now on starts from what it is.
    if (wanted.automatic && entry->managed) part = entry->share.value_or(part);
    LAGOON_RETURN_IF_ERROR(entry->managed ? tuner_.SetDemand(entry->key, part, !wanted.automatic)
                                          : tuner_.Add(entry->key, part, !wanted.automatic));
    entry->managed = true;
  }
  entry->ceiling = wanted.rows;
  entry->model->LimitRows(wanted.rows);
  Status moved = CarryOut(now);
  Publish(now);
  return moved;
}

}  // namespace lagoon
