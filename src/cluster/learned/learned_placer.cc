#include "cluster/learned/learned_placer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/text.h"
#include "cluster/learned/built_in_weights.h"
#include "learn/weights.h"

namespace lagoon {
namespace {

learn::Matrix AsRow(const std::vector<float>& values) {
  return Eigen::Map<const learn::Matrix>(values.data(), 1,
                                         static_cast<Eigen::Index>(values.size()));
}

void Refuse(const PlacementView& view, std::size_t model, Assignment* assignment) {
  assignment->refused.push_back(
      {model, fmt::format("model {}: no GPU has a granule and {} bytes of memory left",
                          Quoted(view.models[model].name), view.models[model].memory_bytes)});
}

}  // namespace

std::string EncodeNetworks(const PlacementNetworks& networks) {
  return learn::EncodeWeights(MeaningOfWeights(), {&networks.global, &networks.local});
}

Result<PlacementNetworks> DecodeNetworks(const std::string& name, std::string_view bytes) {
  LAGOON_ASSIGN_OR_RETURN(std::vector<learn::Mlp> read,
                          learn::DecodeWeights(name, bytes, MeaningOfWeights()));
  const auto fits = [](const learn::Mlp& network, int inputs, int outputs) {
    return network.sizes().front() == inputs && network.sizes().back() == outputs;
  };
  if (read.size() != 2 || !fits(read[0], GlobalFeatures(), kGroups) ||
      !fits(read[1], LocalFeatures(), 2 * kSlots)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("weights '{}': must have a network from {} to {} numbers and one from "
                            "{} to {}",
                            name, GlobalFeatures(), kGroups, LocalFeatures(), 2 * kSlots));
  }
  return PlacementNetworks{std::move(read[0]), std::move(read[1])};
}

LearnedPlacer::LearnedPlacer(std::string name, PlacementNetworks networks, Options options)
    : name_(std::move(name)), networks_(std::move(networks)), options_(options) {}

std::size_t LearnedPlacer::AskNetwork(const Stages& stages, std::size_t demand) const {
  std::vector<std::size_t> among(stages.gpus().size());
  std::iota(among.begin(), among.end(), 0);
  for (;;) {
    const Stages::Choice choice = stages.ChoiceFor(demand, among);
    const learn::Matrix logits = networks_.global.Forward(AsRow(choice.features));
    const int action =
        learn::BestAction({logits.data(), static_cast<std::size_t>(logits.size())}, choice.mask);
    among = choice.groups[static_cast<std::size_t>(action)];
    if (among.size() == 1) return among.front();
  }
}

// At least one GPU can take the replica.
std::size_t LearnedPlacer::ChooseGpu(const Stages& stages, std::size_t demand, Rule rule) const {
  if (rule == Rule::kStay) {
    for (const std::size_t gpu : stages.ServedBy(demand)) {
      if (gpu < stages.gpus().size() && stages.CanTake(demand, gpu)) return gpu;
    }
  }
  if (rule != Rule::kLeastNeed && options_.global) return AskNetwork(stages, demand);
  std::optional<std::size_t> least;
  for (std::size_t gpu = 0; gpu < stages.gpus().size(); ++gpu) {
    if (!stages.CanTake(demand, gpu)) continue;
    if (!least || stages.gpus()[gpu].need < stages.gpus()[*least].need) least = gpu;
  }
  return least.value();
}

GpuShares LearnedPlacer::Share(const Stages& stages, const GpuState& gpu) const {
  GpuShares guess = stages.GuessedShares(gpu);
  if (gpu.members.size() > kSlots || !options_.local) return guess;
  const learn::ShareState state = stages.LocalState(gpu);
  const learn::Matrix raw = networks_.local.Forward(AsRow(state.features)) + AsRow(state.offsets);
  const learn::Matrix action = learn::Squash(raw, AsRow(state.present));
  GpuShares shares = stages.SharesOf(gpu, {action.data(), action.data() + action.size()});
  if (options_.guarded && stages.RewardOf(gpu, guess) > stages.RewardOf(gpu, shares)) return guess;
  return shares;
}

LearnedPlacer::Decision LearnedPlacer::Decide(const PlacementView& view,
                                              const std::vector<Demand>& demands, Rule rule) const {
  Stages stages(view, demands, options_.interference);
  Decision decision;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    bool fits = false;
    for (std::size_t gpu = 0; gpu < view.gpus.size() && !fits; ++gpu) {
      fits = stages.CanTake(i, gpu);
    }
    if (!fits) {
      decision.reward -= 1;
      continue;
    }
    const std::size_t gpu = ChooseGpu(stages, i, rule);
    if (stages.Moves(i, gpu)) decision.reward -= kMoveCost;
    stages.Put(i, gpu);
  }
  for (std::size_t gpu = 0; gpu < view.gpus.size(); ++gpu) {
    const GpuState& state = stages.gpus()[gpu];
    if (state.members.empty()) continue;
    const GpuShares shares = Share(stages, state);
    decision.reward += stages.RewardOf(state, shares);
    const std::vector<std::uint32_t> granules = GranulesOf(shares.shares, state.view.granules);
    for (std::size_t i = 0; i < state.members.size(); ++i) {
      const Demand& demand = demands[state.members[i]];
      decision.assignment.replicas.push_back(
          {demand.model, gpu, granules[i], shares.rows[i], demand.fraction});
    }
  }
  return decision;
}

Assignment LearnedPlacer::Place(const PlacementView& view) {
  const std::vector<Demand> demands = DemandsOf(view, options_.interference);
  Decision best = Decide(view, demands, options_.global ? Rule::kNetwork : Rule::kLeastNeed);
  if (options_.guarded) {
    for (const Rule rule : {Rule::kStay, Rule::kLeastNeed}) {
      if (rule == Rule::kStay && view.current.replicas.empty()) continue;
      Decision other = Decide(view, demands, rule);
      if (other.reward > best.reward) best = std::move(other);
    }
  }
  std::vector<bool> placed(view.models.size());
  for (const PlacedReplica& replica : best.assignment.replicas) placed[replica.model] = true;
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (!placed[i]) Refuse(view, i, &best.assignment);
  }
  SplitByCapacity(view, &best.assignment);
  SortReplicas(best.assignment);
  return std::move(best.assignment);
}

void SplitByCapacity(const PlacementView& view, Assignment* assignment) {
  const auto capacity = [&](const PlacedReplica& replica) {
    const double granules = view.gpus[replica.gpu].granules;
    return view.models[replica.model].latency->alone().Throughput(replica.rows,
                                                                  replica.granules / granules);
  };
  std::vector<double> sums(view.models.size());
  for (const PlacedReplica& replica : assignment->replicas) {
    sums[replica.model] += capacity(replica);
  }
  for (PlacedReplica& replica : assignment->replicas) {
    replica.fraction = capacity(replica) / sums[replica.model];
  }
}

Result<std::unique_ptr<Placer>> MakeLearnedPlacer(std::string_view name) {
  const bool bare = name == "inss-net", guess = name == "inss-guess";
  const std::string_view bytes = BuiltInWeights(bare || guess ? "inss" : name);
  if (bytes.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there are no weights '{}'; there are inss, inss-ni", name));
  }
  LAGOON_ASSIGN_OR_RETURN(PlacementNetworks networks, DecodeNetworks(std::string(name), bytes));
  return std::make_unique<LearnedPlacer>(
      std::string(name), std::move(networks),
      LearnedPlacer::Options{
          .interference = name != "inss-ni", .guarded = !bare, .global = !guess, .local = !guess});
}

}  // namespace lagoon
