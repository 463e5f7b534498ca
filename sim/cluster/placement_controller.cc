#include "sim/cluster/placement_controller.h"

#include <algorithm>
#include <cmath>

namespace lagoon {
namespace {

using State = SimReplica::State;

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
      corrections_(options_.latency.size()) {}

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
    const double factor = options_.online ? corrections_[i].factor() : 1;
    seen.slo = Nanoseconds(std::llround(static_cast<double>(model.slo.count()) / factor));
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
  if (!options_.online) return;
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

bool PlacementController::IsLoading(const ClusterSim& sim, std::size_t model) const {
  for (std::size_t i = 0; i < sim.replicas(); ++i) {
    const SimReplica& replica = sim.replica(i);
    if (replica.spec.model == model && replica.state == State::kLoading) return true;
  }
  return false;
}

// Shares of replicas that stay where they are. False: some have to wait.
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

// Replicas that come, move and go. False: some have to wait for room, or for one that loads.
bool PlacementController::ApplyPlaces(ClusterSim& sim) {
  bool done = true;
  std::vector<std::size_t> leaving;
  for (std::size_t i = 0; i < sim.replicas(); ++i) {
    const SimReplica& replica = sim.replica(i);
    if (IsThere(replica) && Find(target_, replica.spec.model, replica.spec.gpu) == nullptr) {
      leaving.push_back(i);
    }
  }
  const Assignment current = Current(sim);
  for (const PlacedReplica& wanted : target_.replicas) {
    if (Find(current, wanted.model, wanted.gpu) != nullptr) continue;
    // The replicas that leave the GPU make room for those that come, so that two full GPUs can
    // exchange replicas.
    for (const std::size_t index : leaving) {
      const SimReplica& other = sim.replica(index);
      const bool needed = sim.FreeGranules(wanted.gpu) * 2 < wanted.granules;
      if (other.spec.gpu != wanted.gpu || !needed || other.spec.granules < 2) continue;
      if (!sim.Resize(index, other.spec.granules / 2)) done = false;
    }
    const std::uint32_t granules = std::min(wanted.granules, sim.FreeGranules(wanted.gpu));
    done = false;
    if (granules == 0) continue;
    const auto old = std::ranges::find_if(leaving, [&](std::size_t index) {
      return sim.replica(index).spec.model == wanted.model &&
             sim.replica(index).state == State::kServing;
    });
    if (old == leaving.end()) {
      (void)sim
          .Add({.model = wanted.model,
                .gpu = wanted.gpu,
                .granules = granules,
                .fraction = wanted.fraction,
                .rows = wanted.rows})
          .has_value();
    } else if (sim.Relocate(*old, wanted.gpu, granules)) {
      leaving.erase(old);
    }
  }
  for (const std::size_t index : leaving) {
    if (IsLoading(sim, sim.replica(index).spec.model)) {
      done = false;
    } else if (done && !sim.Remove(index)) {
      done = false;
    }
  }
  return done;
}

bool PlacementController::Apply(ClusterSim& sim) {
  const bool shrunk = ApplyShares(sim, true);
  const bool placed = ApplyPlaces(sim);
  const bool grown = ApplyShares(sim, false);
  return shrunk && placed && grown;
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
