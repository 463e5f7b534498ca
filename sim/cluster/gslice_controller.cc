#include "sim/cluster/gslice_controller.h"

#include <algorithm>

#include "base/check.h"

namespace lagoon {
namespace {

ShareTuner MakeTuner(const ShareTuner::Options& options) {
  auto made = ShareTuner::Make(options);
  LAGOON_CHECK(made.has_value());
  return *std::move(made);
}

}  // namespace

GsliceController::GsliceController(const GsliceOptions& options)
    : options_(options),
      tuner_(MakeTuner(options.tuner)),
      monitors_(options.demands.size()),
      arrived_(options.demands.size()) {}

// The tuner's shares at the start are those of the spec: they took no time to make.
void GsliceController::Join(ClusterSim& sim, std::size_t model) {
  const Status added = tuner_.Add(sim.spec().models[model].name, options_.demands[model]);
  LAGOON_CHECK(added.has_value());
}

void GsliceController::CountArrivals(ClusterSim& sim, std::size_t model) {
  const std::uint64_t arrived = sim.Counts(model).arrived;
  if (arrived == arrived_[model]) return;
  monitors_[model].Arrived(static_cast<std::int64_t>(arrived - arrived_[model]),
                           TimePoint(sim.now()));
  arrived_[model] = arrived;
}

void GsliceController::OnBatch(ClusterSim& sim, const BatchEnded& batch) {
  CountArrivals(sim, batch.model);
  monitors_[batch.model].Ended({.rows = batch.rows, .took = batch.took, .device = batch.took},
                               TimePoint(sim.now()));
}

void GsliceController::OnStart(ClusterSim& sim, std::size_t model) {
  Join(sim, model);
  Move(sim);
}

void GsliceController::OnStop(ClusterSim& sim, std::size_t model) {
  moving_.erase(model);
  // A model that stops before the first decision has not joined.
  if (tuner_.Remove(sim.spec().models[model].name)) Move(sim);
}

void GsliceController::OnResized(ClusterSim& sim, std::size_t replica) {
  const auto found = moving_.find(replica);
  if (found == moving_.end()) return;
  const Status done = tuner_.Done(found->second, TimePoint(sim.now()));
  LAGOON_CHECK(done.has_value());
  monitors_[replica].Moved();
  sim.TakeNotice(replica);  // of the old share
  moving_.erase(found);
}

void GsliceController::Observe(ClusterSim& sim, std::size_t model) {
  const LoadReading load = monitors_[model].Read(TimePoint(sim.now()));
  if (!load.batch_ms || !load.rows_per_s || !load.arrivals_per_s) return;
  const ModelSpec& spec = sim.spec().models[model];
  const Status observed = tuner_.Observe(spec.name,
                                         {.latency_ms = *load.batch_ms,
                                          .slo_ms = ToMilliseconds(spec.slo),
                                          .rows_per_s = *load.rows_per_s,
                                          .arrivals_per_s = *load.arrivals_per_s},
                                         sim.TakeNotice(model));
  LAGOON_CHECK(observed.has_value());
}

// Asks for the moves of the plan. Its later moves wait for the earlier ones.
void GsliceController::Move(ClusterSim& sim) {
  if (!moving_.empty()) return;
  for (const ShareTuner::Move& move : tuner_.Decide(TimePoint(sim.now())).moves) {
    const auto& models = sim.spec().models;
    const auto index = static_cast<std::size_t>(
        std::ranges::find(models, move.model, &ModelSpec::name) - models.begin());
    const bool loading = sim.replica(index).state == SimReplica::State::kLoading;
    if (!loading && sim.replica(index).spec.granules == move.to.count) {
      // The share only lies elsewhere, which the simulator does not distinguish.
      const Status done = tuner_.Done(move, TimePoint(sim.now()));
      if (!done) return;  // after a move that has not taken place yet
      continue;
    }
    if (!sim.Resize(index, move.to.count)) {
      ++refused_;
      return;
    }
    moving_.emplace(index, move);
  }
}

void GsliceController::Decide(ClusterSim& sim) {
  for (std::size_t i = 0; i < options_.demands.size() && !joined_; ++i) {
    if (sim.spec().models[i].start == Nanoseconds(0)) Join(sim, i);
  }
  if (!joined_) Move(sim);
  joined_ = true;
  for (const ShareTuner::State& state : tuner_.models()) {
    const auto& models = sim.spec().models;
    const auto index = static_cast<std::size_t>(
        std::ranges::find(models, state.model, &ModelSpec::name) - models.begin());
    CountArrivals(sim, index);
    if (state.range && !moving_.contains(index)) Observe(sim, index);
  }
  if (sim.now() >= options_.first) Move(sim);
}

}  // namespace lagoon
