#include "sim/cluster/placement_controller.h"

#include <algorithm>
#include <cmath>

namespace lagoon {
namespace {

using State = SimReplica::State;

// Decisions in a row that lack the memory for a replica, until the assignment is given up.
constexpr int kPatience = 5;

bool IsThere(const SimReplica& replica) {
  return replica.state == State::kServing || replica.state == State::kLoading;
}

const PlacedReplica* Find(const Assignment& assignment, std::size_t model, std::size_t gpu) {
  for (const PlacedReplica& replica : assignment.replicas) {
    if (replica.model == model && replica.gpu == gpu) return &replica;
  }
  return nullptr;
}

double StepAt(const ArrivalSpec& arrivals, Nanoseconds now) {
  double rate = 0;
  for (const RateStep& step : arrivals.rates) {
    if (step.from <= now) rate = step.per_s;
  }
  return rate;
}

}  // namespace

PlacementController::PlacementController(Placer& placer, PlacementOptions options)
    : placer_(placer),
      options_(std::move(options)),
      judge_(options_.rules),
      rates_(options_.latency.size(), Ewma(0.3)),
      last_rates_(options_.latency.size()),
      arrived_(options_.latency.size()),
      corrections_(options_.latency.size()),
      batch_ms_(options_.latency.size(), Ewma(0.3)) {}

double PlacementController::RateOf(const ClusterSpec& spec, std::size_t model,
                                   Nanoseconds now) const {
  switch (options_.rates) {
    case RateSource::kMonitor:
      return rates_[model].value().value_or(StepAt(spec.models[model].arrivals, now));
    case RateSource::kLastSecond:
      return rates_[model].value() ? last_rates_[model] : StepAt(spec.models[model].arrivals, now);
    case RateSource::kOracle:
      return StepAt(spec.models[model].arrivals, now);
  }
  return 0;
}

PlacementView PlacementController::ViewOf(const ClusterSpec& spec) const {
  PlacementView view;
  for (const GpuSpec& gpu : spec.gpus) view.gpus.push_back({gpu.granules, gpu.memory_bytes});
  for (std::size_t i = 0; i < spec.models.size(); ++i) {
    const ModelSpec& model = spec.models[i];
    ModelView& seen = view.models.emplace_back();
    seen.name = model.name;
    seen.slo = model.slo;
    if (options_.online) seen.slowdown = corrections_[i].factor();
    seen.measured_ms = batch_ms_[i].value().value_or(0);
    const double rate = RateOf(spec, i, last_);
    seen.rate_error = std::sqrt(rate / 3);  // of about three seconds' arrivals
    seen.rate = rate + options_.margin * seen.rate_error;
    seen.latency = options_.latency[i];
    seen.memory_bytes = model.memory_bytes;
    seen.most_rows = model.batching.rows;
  }
  return view;
}

Status PlacementController::Start(ClusterSpec& spec) {
  const PlacementView view = ViewOf(spec);
  LAGOON_RETURN_IF_ERROR(CheckView(view));
  target_ = placer_.Place(view);
  LAGOON_RETURN_IF_ERROR(CheckAssignment(view, target_));
  spec.replicas.clear();
  for (const PlacedReplica& replica : target_.replicas) {
    spec.replicas.push_back({.model = replica.model,
                             .gpu = replica.gpu,
                             .granules = replica.granules,
                             .fraction = replica.fraction,
                             .rows = replica.rows});
  }
  return {};
}

void PlacementController::ReadRates(const ClusterSim& sim) {
  const double seconds = std::chrono::duration<double>(sim.now() - last_).count();
  last_ = sim.now();
  for (std::size_t i = 0; i < arrived_.size(); ++i) {
    const std::uint64_t arrived = sim.Counts(i).arrived;
    last_rates_[i] = static_cast<double>(arrived - arrived_[i]) / seconds;
    rates_[i].Add(last_rates_[i]);
    arrived_[i] = arrived;
  }
}

void PlacementController::OnBatch(ClusterSim& sim, const BatchEnded& batch) {
  batch_ms_[batch.model].Add(ToMilliseconds(batch.took));
  // While replicas move, the neighbours are others than those of the assignment.
  if (!options_.online || !done_) return;
  const SimReplica& replica = sim.replica(batch.replica);
  const double share =
      static_cast<double>(replica.spec.granules) / sim.spec().gpus[replica.spec.gpu].granules;
  std::vector<Neighbour> others;
  for (const PlacedReplica& other : target_.replicas) {
    if (other.gpu != replica.spec.gpu || other.model == batch.model) continue;
    others.push_back({options_.latency[other.model], other.rows,
                      static_cast<double>(other.granules) / sim.spec().gpus[other.gpu].granules});
  }
  corrections_[batch.model].Measured(
      ToMilliseconds(batch.took),
      options_.latency[batch.model]->LatencyMs(batch.rows, share, others));
}

Assignment PlacementController::Current(const ClusterSim& sim) const {
  Assignment current;
  std::vector<double> sums(options_.latency.size());
  for (std::size_t i = 0; i < sim.replicas(); ++i) {
    const SimReplica& replica = sim.replica(i);
    if (!IsThere(replica)) continue;
    current.replicas.push_back({replica.spec.model, replica.spec.gpu,
                                std::max(1U, replica.spec.granules), replica.rows,
                                replica.spec.fraction});
    sums[replica.spec.model] += replica.spec.fraction;
  }
  for (PlacedReplica& replica : current.replicas) replica.fraction /= sums[replica.model];
  SortReplicas(current);
  return current;
}

// Shares, limits and fractions of replicas that stay where they are. False: some have to wait.
bool PlacementController::ApplyShares(ClusterSim& sim, bool shrink) {
  bool done = true;
  for (std::size_t i = 0; i < sim.replicas(); ++i) {
    const SimReplica& replica = sim.replica(i);
    if (!IsThere(replica)) continue;
    const PlacedReplica* wanted = Find(target_, replica.spec.model, replica.spec.gpu);
    if (wanted == nullptr) continue;
    const bool smaller = wanted->granules < replica.spec.granules;
    if (wanted->granules != replica.spec.granules && smaller == shrink) {
      std::uint32_t granules = wanted->granules;
      if (!smaller) {
        granules = std::min(granules, replica.spec.granules + sim.FreeGranules(replica.spec.gpu));
      }
      done = done && granules == wanted->granules;
      if (granules != replica.spec.granules && !sim.Resize(i, granules)) done = false;
    }
    if (replica.rows != wanted->rows && !sim.SetRows(i, wanted->rows)) done = false;
    if (!sim.SetFraction(i, wanted->fraction)) done = false;
  }
  return done;
}

std::vector<std::size_t> PlacementController::Leaving(const ClusterSim& sim) const {
  std::vector<std::size_t> leaving;
  for (std::size_t i = 0; i < sim.replicas(); ++i) {
    const SimReplica& replica = sim.replica(i);
    if (IsThere(replica) && Find(target_, replica.spec.model, replica.spec.gpu) == nullptr) {
      leaving.push_back(i);
    }
  }
  return leaving;
}

// Replicas that come begin to load, which takes memory only: those that serve keep their shares.
// False: the memory for some is missing.
bool PlacementController::Load(ClusterSim& sim) {
  bool all = true;
  std::vector<std::size_t> leaving = Leaving(sim);
  std::erase_if(leaving, [&](std::size_t index) {
    return sim.replica(index).state != State::kServing || replaced_.contains(index);
  });
  const Assignment current = Current(sim);
  for (const PlacedReplica& wanted : target_.replicas) {
    if (Find(current, wanted.model, wanted.gpu) != nullptr) continue;
    const auto old = std::ranges::find_if(
        leaving, [&](std::size_t index) { return sim.replica(index).spec.model == wanted.model; });
    Result<std::size_t> added = old != leaving.end()
                                    ? sim.Relocate(*old, wanted.gpu, wanted.granules)
                                    : sim.Add({.model = wanted.model,
                                               .gpu = wanted.gpu,
                                               .granules = wanted.granules,
                                               .fraction = wanted.fraction,
                                               .rows = wanted.rows});
    if (!added) {
      all = false;
    } else if (old != leaving.end()) {
      replaced_.insert(*old);
      leaving.erase(old);
    }
  }
  return all;
}

// The replicas that leave go, once all that come can take their granules at once: as far as nothing
// else is short, a model has no replica only until the batches that run end. Devices on which
// shares have yet to shrink wait, and so does what depends on them. False: something waits.
bool PlacementController::Exchange(ClusterSim& sim) {
  std::vector<std::size_t> leaving = Leaving(sim), coming;
  std::vector<bool> served(sim.spec().models.size());  // by replicas that stay
  std::vector<bool> wanted(served.size());
  for (const PlacedReplica& replica : target_.replicas) wanted[replica.model] = true;
  for (std::size_t i = 0; i < sim.replicas(); ++i) {
    const SimReplica& replica = sim.replica(i);
    if (!IsThere(replica) || std::ranges::count(leaving, i) > 0) continue;
    if (replica.state == State::kLoading) {
      coming.push_back(i);
    } else {
      served[replica.spec.model] = true;
    }
  }
  for (bool changed = true; changed;) {
    std::vector<bool> replaced = served;
    for (const std::size_t index : coming) replaced[sim.replica(index).spec.model] = true;
    changed = std::erase_if(leaving, [&](std::size_t index) {
                const std::size_t model = sim.replica(index).spec.model;
                return wanted[model] && !replaced[model];
              }) > 0;
    std::vector<bool> full(sim.spec().gpus.size());
    for (std::size_t gpu = 0; gpu < full.size(); ++gpu) {
      full[gpu] = !HasRoomFor(sim, gpu, coming, leaving);
    }
    const auto waits = [&](std::size_t index) { return full[sim.replica(index).spec.gpu]; };
    changed = std::erase_if(coming, waits) > 0 || changed;
  }
  for (const std::size_t index : leaving) (void)sim.Remove(index);
  return Leaving(sim).empty() && !IsLoading(sim);
}

// Whether a device has room for those that come to it, without those that leave.
bool PlacementController::HasRoomFor(const ClusterSim& sim, std::size_t gpu,
                                     const std::vector<std::size_t>& coming,
                                     const std::vector<std::size_t>& leaving) const {
  std::uint32_t granules = sim.UsedGranules(gpu);
  for (const std::size_t index : coming) {
    const ReplicaSpec& spec = sim.replica(index).spec;
    granules += spec.gpu == gpu ? spec.granules : 0;
  }
  for (const std::size_t index : leaving) {
    const SimReplica& replica = sim.replica(index);
    if (replica.spec.gpu == gpu && replica.state == State::kServing) {
      granules -= replica.spec.granules;
    }
  }
  return granules <= sim.spec().gpus[gpu].granules;
}

bool PlacementController::IsLoading(const ClusterSim& sim) const {
  for (std::size_t i = 0; i < sim.replicas(); ++i) {
    if (sim.replica(i).state == State::kLoading) return true;
  }
  return false;
}

// Whether a replica is not loaded yet: until then nothing shrinks for it.
bool PlacementController::IsBeingLoaded(const ClusterSim& sim) const {
  for (std::size_t i = 0; i < sim.replicas(); ++i) {
    const SimReplica& replica = sim.replica(i);
    if (replica.state == State::kLoading && replica.ready > sim.now()) return true;
  }
  return false;
}

// The target needs more memory than there is while both copies of what moves exist. What came for
// it and does not serve yet goes.
bool PlacementController::GiveUp(ClusterSim& sim) {
  for (std::size_t i = 0; i < sim.replicas(); ++i) {
    if (sim.replica(i).state == State::kLoading) (void)sim.Remove(i);
  }
  target_ = Current(sim);
  replaced_.clear();
  stuck_ = 0;
  ++given_up_;
  return true;
}

bool PlacementController::Apply(ClusterSim& sim) {
  const bool come = Load(sim);
  stuck_ = come ? 0 : stuck_ + 1;
  if (stuck_ == kPatience) return GiveUp(sim);
  if (IsBeingLoaded(sim)) return false;
  const bool shrunk = ApplyShares(sim, true);
  const bool exchanged = Exchange(sim);
  const bool grown = exchanged && ApplyShares(sim, false);
  if (!come || !shrunk || !exchanged || !grown) return false;
  replaced_.clear();
  return true;
}

void PlacementController::Decide(ClusterSim& sim) {
  ReadRates(sim);
  ++decisions_;
  if (!done_) done_ = Apply(sim);
  if (!done_) {
    ++busy_decisions_;
    return;
  }
  PlacementView view = ViewOf(sim.spec());
  view.current = Current(sim);
  Assignment next = placer_.Place(view);
  const PlacementJudge::Verdict verdict = judge_.Judge(view, next, TimePoint(sim.now()));
  if (verdict.judgement == PlacementJudge::Judgement::kBroken) {
    ++refused_assignments_;
    last_error_ = verdict.reason;
    return;
  }
  if (verdict.judgement == PlacementJudge::Judgement::kWait) return;
  if (verdict.judgement == PlacementJudge::Judgement::kKeep) {
    // Shares and limits follow, as in a fleet; arrivals are split as before.
    for (PlacedReplica& replica : next.replicas) {
      replica.fraction = Find(view.current, replica.model, replica.gpu)->fraction;
    }
  }
  target_ = std::move(next);
  done_ = Apply(sim);
}

}  // namespace lagoon
