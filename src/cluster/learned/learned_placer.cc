#include "cluster/learned/learned_placer.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "cluster/learned/built_in_weights.h"
#include "learn/weights.h"

namespace lagoon {
namespace {

learn::Matrix AsRow(const std::vector<float>& values) {
  return Eigen::Map<const learn::Matrix>(values.data(), 1,
                                         static_cast<Eigen::Index>(values.size()));
}

Assignment Refuse(const PlacementView& view, const std::vector<std::size_t>& models,
                  Assignment assignment) {
  for (const std::size_t model : models) {
    assignment.refused.push_back(
        {model, fmt::format("model {}: no GPU has a granule and {} bytes of memory left",
                            Quoted(view.models[model].name), view.models[model].memory_bytes)});
  }
  return assignment;
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

LearnedPlacer::LearnedPlacer(std::string name, PlacementNetworks networks, bool interference)
    : name_(std::move(name)), networks_(std::move(networks)), interference_(interference) {}

// `among`: at least one of them can take the replica.
std::size_t LearnedPlacer::ChooseGpu(const Stages& stages, std::size_t demand,
                                     std::vector<std::size_t> among) const {
  for (;;) {
    const Stages::Choice choice = stages.ChoiceFor(demand, among);
    const learn::Matrix logits = networks_.global.Forward(AsRow(choice.features));
    const int action =
        learn::BestAction({logits.data(), static_cast<std::size_t>(logits.size())}, choice.mask);
    among = choice.groups[static_cast<std::size_t>(action)];
    if (among.size() == 1) return among.front();
  }
}

void LearnedPlacer::Share(const Stages& stages, const std::vector<Demand>& demands,
                          Assignment* to) const {
  for (std::size_t gpu = 0; gpu < stages.gpus().size(); ++gpu) {
    const GpuState& plan = stages.gpus()[gpu];
    if (plan.members.empty()) continue;
    GpuShares shares;
    if (plan.members.size() > kSlots) {
      shares = stages.GuessedShares(plan);
    } else {
      const learn::Td3State state = stages.LocalState(plan);
      const learn::Matrix raw =
          networks_.local.Forward(AsRow(state.features)) + AsRow(state.offsets);
      const learn::Matrix action = learn::Squash(raw, AsRow(state.present));
      shares = stages.SharesOf(plan, {action.data(), action.data() + action.size()});
    }
    const std::vector<std::uint32_t> granules = GranulesOf(shares.shares, plan.view.granules);
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
      const Demand& demand = demands[plan.members[i]];
      to->replicas.push_back({.model = demand.model,
                              .gpu = gpu,
                              .granules = granules[i],
                              .rows = shares.rows[i],
                              .fraction = demand.fraction});
    }
  }
}

Assignment LearnedPlacer::Place(const PlacementView& view) {
  const std::vector<Demand> demands = DemandsOf(view, interference_);
  Stages stages(view, demands, interference_);
  std::vector<std::size_t> all(view.gpus.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<bool> placed(view.models.size());
  for (std::size_t i = 0; i < demands.size(); ++i) {
    const bool fits =
        std::ranges::any_of(all, [&](std::size_t gpu) { return stages.CanTake(i, gpu); });
    if (!fits) continue;
    stages.Put(i, ChooseGpu(stages, i, all));
    placed[demands[i].model] = true;
  }
  Assignment assignment;
  Share(stages, demands, &assignment);
  std::vector<std::size_t> refused;
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (!placed[i]) refused.push_back(i);
  }
  SplitByCapacity(view, &assignment);
  SortReplicas(assignment);
  return Refuse(view, refused, std::move(assignment));
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
  const std::string_view bytes = BuiltInWeights(name);
  if (bytes.empty()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there are no weights '{}'; there are inss, inss-ni", name));
  }
  LAGOON_ASSIGN_OR_RETURN(PlacementNetworks networks, DecodeNetworks(std::string(name), bytes));
  return std::make_unique<LearnedPlacer>(std::string(name), std::move(networks), name == "inss");
}

}  // namespace lagoon
