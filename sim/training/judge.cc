#include "sim/training/judge.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "cluster/learned/learned_placer.h"
#include "cluster/learned/stages.h"

namespace lagoon {
namespace {

// The replicas as demands. The scale of a model does not depend on its replicas.
std::vector<Demand> DemandsOfReplicas(const PlacementView& view, const Assignment& assignment) {
  std::vector<Demand> demands;
  const std::vector<Demand> all = DemandsOf(view, true);
  for (const PlacedReplica& replica : assignment.replicas) {
    const ModelView& model = view.models[replica.model];
    demands.push_back({.model = replica.model,
                       .fraction = replica.fraction,
                       .rate = model.rate * replica.fraction,
                       .slo_ms = model.SloMs(),
                       .latency = model.latency,
                       .scale = std::ranges::find(all, replica.model, &Demand::model)->scale});
  }
  return demands;
}

// `lost`: part of the requests of each model.
void JudgeModels(const PlacementView& view, const std::vector<double>& lost, Judged& judged) {
  double requests = 0, all = 0;
  for (std::size_t i = 0; i < lost.size(); ++i) {
    judged.of_models += lost[i] / static_cast<double>(lost.size());
    requests += lost[i] * view.models[i].rate;
    all += view.models[i].rate;
  }
  if (all > 0) judged.of_requests = requests / all;
}

}  // namespace

Judged Judge(const PlacementView& view, const Assignment& assignment) {
  const std::vector<Demand> demands = DemandsOfReplicas(view, assignment);
  const Stages stages(view, demands, true);
  std::vector<double> served(view.models.size());
  Judged judged;
  for (std::size_t gpu = 0; gpu < view.gpus.size(); ++gpu) {
    GpuState plan{.view = view.gpus[gpu]};
    GpuShares shares;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      const PlacedReplica& replica = assignment.replicas[i];
      if (replica.gpu != gpu) continue;
      plan.members.push_back(i);
      shares.shares.push_back(static_cast<double>(replica.granules) / plan.view.granules);
      shares.rows.push_back(replica.rows);
    }
    judged.reward += stages.RewardOf(plan, shares);
    const std::vector<double> violations = stages.ViolationsOf(plan, shares);
    for (std::size_t i = 0; i < violations.size(); ++i) {
      const Demand& demand = demands[plan.members[i]];
      judged.violations += violations[i] / static_cast<double>(demands.size());
      served[demand.model] += demand.fraction * (1 - violations[i]);
    }
  }
  std::vector<double> lost;
  for (const double part : served) lost.push_back(std::clamp(1 - part, 0.0, 1.0));
  JudgeModels(view, lost, judged);
  return judged;
}

Judged Guess(const PlacementView& view, bool interference) {
  const std::vector<Demand> demands = DemandsOf(view, interference);
  Stages stages(view, demands, interference);
  std::vector<std::size_t> gpus(view.gpus.size());
  std::iota(gpus.begin(), gpus.end(), 0);
  for (std::size_t i = 0; i < demands.size(); ++i) {
    const Stages::Choice choice = stages.ChoiceFor(i, gpus);
    for (std::size_t group = 0; group < choice.groups.size(); ++group) {
      if (((choice.mask >> group) & 1U) == 0) continue;
      stages.Put(i, choice.groups[group].front());
      break;
    }
  }
  Assignment assignment;
  for (std::size_t gpu = 0; gpu < stages.gpus().size(); ++gpu) {
    const GpuState& plan = stages.gpus()[gpu];
    if (plan.members.empty()) continue;
    const GpuShares shares = stages.GuessedShares(plan);
    const std::vector<std::uint32_t> granules = GranulesOf(shares.shares, plan.view.granules);
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
      const Demand& demand = demands[plan.members[i]];
      assignment.replicas.push_back(
          {demand.model, gpu, granules[i], shares.rows[i], demand.fraction});
    }
  }
  SplitByCapacity(view, &assignment);
  return Judge(view, assignment);
}

}  // namespace lagoon
