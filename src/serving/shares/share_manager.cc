#include "serving/shares/share_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/guard.h"
#include "base/log.h"
#include "cluster/knee.h"
#include "device/host/shares.h"

namespace lagoon {
namespace {

constexpr std::uint32_t kWeightSteps = 100;  // a weight is a whole number of percent

std::uint32_t GranulesOf(const ShareManagerOptions& options) {
  if (options.kind == ShareKind::kWeight) return kWeightSteps;
  return (options.units + options.granule - 1) / options.granule;
}

std::string Percent(double part) { return fmt::format("{:.3g} %", 100 * part); }

/// What the larger of both needs says.
std::string WhyNeeded(const ShareLoad& load) {
  const double of_slo = load.latency_ms / load.slo_ms;
  const double of_capacity = load.arrivals_per_s / load.rows_per_s;
  if (of_slo >= of_capacity) {
    return fmt::format("the latency, {:.3g} ms, is {:.2f} of the SLO", load.latency_ms, of_slo);
  }
  return fmt::format("{:.3g} rows arrive a second, which is {:.2f} of the {:.3g} that it can do",
                     load.arrivals_per_s, of_capacity, load.rows_per_s);
}

std::string WhyMoved(const ShareMove& move, const ShareLoad& load, BatchNotice notice) {
  switch (move.cause) {
    case ShareCause::kMembers:
      return move.from ? "the models that have shares changed" : "it is the first share";
    case ShareCause::kFixed:
      return "it was set by an operator";
    case ShareCause::kDemand:
      return WhyNeeded(load);
    case ShareCause::kNotice:
      return fmt::format("its batches {} the SLO: {}",
                         notice == BatchNotice::kUnder ? "miss" : "keep", WhyNeeded(load));
    case ShareCause::kOthers:
      break;
  }
  return "the shares of others changed";
}

}  // namespace

Result<std::unique_ptr<ShareManager>> ShareManager::Make(const ShareManagerOptions& options,
                                                         ShareHost& host) {
  LAGOON_CHECK(options.kind == ShareKind::kWeight || options.granule > 0);
  LAGOON_ASSIGN_OR_RETURN(ShareTuner tuner, ShareTuner::Make({.granules = GranulesOf(options),
                                                              .trigger = options.trigger,
                                                              .hold_down = options.hold_down}));
  std::unique_ptr<ShareManager> manager(new ShareManager(options, std::move(tuner), host));
  const MutexLock lock(manager->mutex_);
  manager->Publish({});
  return manager;
}

Status ShareManager::Replace(std::span<const std::size_t> gone, std::vector<SharedModel> come,
                             TimePoint now) {
  std::vector<std::size_t> added;
  for (const SharedModel& model : come) added.push_back(model.id);
  const MutexLock lock(mutex_);
  Entries before = Remove(gone);
  Status status = AddAndMove(std::move(come), now);
  if (!status && !added.empty()) {
    Remove(added);
    PutBack(std::move(before));
    Conclude(AddAndMove({}, now), now);
    return status;
  }
  Conclude(status, now);
  return {};
}

Status ShareManager::AddAndMove(std::vector<SharedModel> come, TimePoint now) {
  try {
    LAGOON_RETURN_IF_ERROR(Add(std::move(come)));
    return CarryOut(now);
  } catch (const std::bad_alloc&) {
    return Fail(ErrorCode::kResourceExhausted, "out of memory");
  }
}

void ShareManager::Conclude(const Status& moved, TimePoint now) {
  try {
    Warn(moved);
    Publish(now);
  } catch (const std::bad_alloc&) {
    return;  // the next step does the same again
  }
}

Status ShareManager::Add(std::vector<SharedModel> models) {
  for (SharedModel& model : models) {
    Entries one(1);
    Entry& entry = one.front();
    entry.key = fmt::format("{}/{}", model.name, model.version);
    entry.weight = model.share.weight.value_or(1);
    entry.managed = false;
    entry.model = std::move(model);
    const ShareSettings& share = entry.model.share;
    if (share.any()) {
      LAGOON_RETURN_IF_ERROR(
          tuner_.Add(entry.key, share.fixed.value_or(kUnknownDemand), share.fixed.has_value()));
      entry.managed = true;
    }
    entries_.splice(entries_.end(), one);
  }
  return {};
}

ShareManager::Entries ShareManager::Remove(std::span<const std::size_t> ids) {
  Entries removed;
  for (const std::size_t id : ids) {
    const auto found =
        std::ranges::find_if(entries_, [id](const Entry& entry) { return entry.model.id == id; });
    if (found == entries_.end()) continue;
    if (found->managed) {
      const auto state = std::ranges::find(tuner_.models(), found->key, &ShareState::model);
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
void ShareManager::PutBack(Entries entries) {
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

void ShareManager::Warn(const Status& moved) {
  const std::string problem = moved ? std::string() : moved.error().message;
  if (!problem.empty() && problem != problem_) {
    spdlog::warn("a share was not moved, which is tried again every second: {}", problem);
  }
  problem_ = problem;
}

void ShareManager::Step(TimePoint now) {
  const MutexLock lock(mutex_);
  if (tuning_) {
    for (Entry& entry : entries_) Observe(entry, now);
  }
  Warn(CarryOut(now));
  Publish(now);
}

/// Leaves a model without traffic alone: nothing is known of it.
void ShareManager::Observe(Entry& entry, TimePoint now) {
  if (!entry.managed) return;
  const BatchNotice notice = host_.TakeNotice(entry.model.id);
  const LoadReading reading = host_.ReadLoad(entry.model.id, now);
  const bool has_slo = entry.model.slo > Nanoseconds(0);
  const std::optional<double> latency =
      entry.model.slo_of == SloOf::kBatch ? reading.batch_ms : reading.request_p95_ms;
  if (!reading.rows_per_s || !(*reading.rows_per_s > 0) || !reading.arrivals_per_s ||
      (has_slo && !latency)) {
    return;
  }
  entry.load = {.latency_ms = has_slo ? *latency : 0,
                .slo_ms = has_slo ? ToMilliseconds(entry.model.slo) : 1,
                .rows_per_s = *reading.rows_per_s,
                .arrivals_per_s = *reading.arrivals_per_s,
                .host_bound = reading.bottleneck == Bottleneck::kHost};
  if (notice != BatchNotice::kNone) entry.notice = notice;
  const Status observed = tuner_.Observe(entry.key, entry.load, notice);
  if (!observed) spdlog::warn("a share is not tuned: {}", observed.error().message);
}

Status ShareManager::CarryOut(TimePoint now) {
  const SharePlan plan = tuner_.Plan(now);
  if (!plan.weights.empty()) return UseWeights(plan.weights, now);
  for (const ShareMove& move : plan.moves) LAGOON_RETURN_IF_ERROR(CarryOut(move, now));
  return {};
}

Status ShareManager::CarryOut(const ShareMove& move, TimePoint now) {
  Entry& entry = Find(move.model);
  const std::size_t id = entry.model.id;
  const double share = 1.0 * move.to.count / GranulesOf(options_);
  if (options_.kind == ShareKind::kWeight) {
    LAGOON_RETURN_IF_ERROR(host_.SetWeight(id, share));
    entry.weight = share;
  } else {
    LAGOON_RETURN_IF_ERROR(host_.Move(id, UnitsOf(move.to)));
    entry.units = UnitsOf(move.to);
  }
  LAGOON_RETURN_IF_ERROR(tuner_.Done(move, now));
  // A weight of another place in the order of the models is the same weight.
  if (options_.kind == ShareKind::kWeight && entry.share == share) return {};
  host_.ForgetTimes(id);
  Note(entry, share, WhyMoved(move, entry.load, std::exchange(entry.notice, {})), now);
  return {};
}

/// The models cannot have granules of their own.
Status ShareManager::UseWeights(const std::vector<double>& weights, TimePoint now) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    Entry& entry = Find(tuner_.models()[i].model);
    if (entry.share && std::abs(*entry.share - weights[i]) < 1e-6) continue;
    LAGOON_RETURN_IF_ERROR(host_.Move(entry.model.id, {}));
    LAGOON_RETURN_IF_ERROR(host_.SetWeight(entry.model.id, weights[i]));
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

void ShareManager::Note(Entry& entry, double share, std::string why, TimePoint now) {
  const std::string where =
      entry.units.count > 0 ? Text(entry.units) : fmt::format("weight {:.3g}", entry.weight);
  spdlog::info("model '{}' version {}: share {} -> {} ({}): {}", entry.model.name,
               entry.model.version, entry.share ? Percent(*entry.share) : "none", Percent(share),
               where, why);
  entry.last = {entry.share.value_or(0), share, std::move(why), now};
  entry.moves += entry.share ? 1 : 0;
  entry.share = share;
  host_.OnChange(entry.model.id, *entry.last, entry.units);
}

ShareManager::Entry& ShareManager::Find(const std::string& key) {
  const auto found = std::ranges::find(entries_, key, &Entry::key);
  LAGOON_CHECK(found != entries_.end());
  return *found;
}

UnitRange ShareManager::UnitsOf(GranuleRange range) const {
  const std::uint32_t first = range.first * options_.granule;
  const std::uint32_t end = std::min(range.end() * options_.granule, options_.units);
  return {first, end - first};
}

SharesReport ShareManager::Read() const {
  std::shared_ptr<const SharesReport> report;
  {
    const MutexLock lock(report_mutex_);
    report = report_;
  }
  return *report;
}

void ShareManager::Publish(TimePoint now) {
  for (Entry& entry : entries_) {
    entry.reading = host_.ReadLoad(entry.model.id, now);
    entry.most_rows = host_.MostRows(entry.model.id);
  }
  auto report = std::make_shared<const SharesReport>(Report());
  const MutexLock lock(report_mutex_);
  report_.swap(report);
}

SharesReport ShareManager::Report() const {
  SharesReport report{.kind = options_.kind,
                      .tuning = tuning_,
                      .trigger = tuner_.options().trigger,
                      .hold_down = tuner_.options().hold_down,
                      .units = options_.units,
                      .granule = options_.granule,
                      .models = {}};
  for (const Entry& entry : entries_) {
    ModelShare& model = report.models.emplace_back();
    model.model = entry.model.name;
    model.version = entry.model.version;
    model.share = entry.share;
    model.units = entry.units;
    model.weight = entry.weight;
    model.slo = entry.model.slo;
    model.slo_of = entry.model.slo_of;
    model.load = entry.reading;
    model.most_rows = entry.most_rows;
    model.moves = entry.moves;
    model.last = entry.last;
    const auto state = std::ranges::find(tuner_.models(), entry.key, &ShareState::model);
    if (state == tuner_.models().end()) continue;
    model.fixed = state->fixed;
    model.demand = state->demand;
  }
  return report;
}

Status ShareManager::SetRules(const SharesRules& rules, TimePoint now) {
  const MutexLock lock(mutex_);
  LAGOON_RETURN_IF_ERROR(tuner_.SetRules(rules.trigger.value_or(tuner_.options().trigger),
                                         rules.hold_down.value_or(tuner_.options().hold_down)));
  tuning_ = rules.tuning.value_or(tuning_);
  Publish(now);
  return {};
}

Result<double> ShareManager::PartOf(const ShareWanted& wanted) const {
  if (wanted.automatic) return kUnknownDemand;
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

Status ShareManager::Resize(std::size_t id, const ShareWanted& wanted, TimePoint now) {
  LAGOON_ASSIGN_OR_RETURN(double part, PartOf(wanted));
  const MutexLock lock(mutex_);
  const auto entry =
      std::ranges::find_if(entries_, [id](const Entry& one) { return one.model.id == id; });
  if (entry == entries_.end()) return Fail(ErrorCode::kNotFound, "it is being unloaded");
  if (wanted.automatic && entry->managed) {  // starts from what it has
    part = entry->share.value_or(part);
  }
  LAGOON_RETURN_IF_ERROR(entry->managed ? tuner_.SetDemand(entry->key, part, !wanted.automatic)
                                        : tuner_.Add(entry->key, part, !wanted.automatic));
  entry->managed = true;
  Status moved = CarryOut(now);
  Publish(now);
  return moved;
}

}  // namespace lagoon
