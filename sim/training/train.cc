#include "sim/training/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "learn/weights.h"
#include "sim/learn/state_file.h"

namespace lagoon {
namespace {

constexpr float kHuber = 1;  // errors of the critics from here on count linearly

learn::SacOptions GlobalOptions(const TrainOptions& options) {
  learn::SacOptions sac;
  sac.features = GlobalFeatures();
  sac.actions = kGroups;
  sac.hidden = options.hidden;
  sac.first_temperature = 0.1F;  // rewards are a 40th of the paper's
  sac.batch = options.batch;
  sac.rate *= options.rate;
  if (options.rules.huber) sac.most_error = kHuber;
  return sac;
}

learn::Td3Options LocalOptions(const TrainOptions& options) {
  learn::Td3Options td3;
  td3.features = LocalFeatures();
  td3.slots = kSlots;
  td3.levels = 1;
  td3.hidden = options.hidden;
  td3.last_scale = 0.01F;
  td3.batch = options.batch;
  td3.rate *= options.rate;
  if (options.rules.huber) td3.most_error = kHuber;
  return td3;
}

std::vector<std::size_t> AllGpus(const Stages& stages) {
  std::vector<std::size_t> all(stages.gpus().size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::uint32_t SeedOf(std::uint32_t seed, int episode) {
  return seed * 2654435761U + static_cast<std::uint32_t>(episode) * 40503U + 1;
}

}  // namespace

// One choice of the global stage.
struct Trainer::Placed {
  Stages::Choice choice;
  int action = 0;
  std::size_t demand = 0;
  double change = 0;  // of the GPU's reward, under the local stage's present policy
  double cost = 0;    // of a move
};

Trainer::Trainer(const TrainOptions& options)
    : options_(options),
      first_(options.seed),
      sac_(GlobalOptions(options), first_),
      td3_(LocalOptions(options), first_) {}

EpisodeResult Trainer::RunEpisode() {
  // Each episode draws from a generator of its own, so that a resumed training draws the same.
  Random random(SeedOf(options_.seed, done_));
  TrainingEpisode episode(RangesAt(options_, done_), random);
  EpisodeResult result{.episode = done_ + 1};
  for (int step = 0; step < options_.steps; ++step) {
    if (step > 0) episode.Walk(random);
    const Second second = RunSecond(episode.view(), random);
    result.reward += second.reward / options_.steps;
    result.violations += second.violations / options_.steps;
    for (int update = 0; update < options_.updates; ++update) {
      sac_.Learn(EntropyAt(options_, done_), random);
      td3_.Learn(random);
    }
  }
  result.temperature = sac_.temperature();
  ++done_;
  return result;
}

Trainer::Second Trainer::RunSecond(PlacementView& view, Random& random) {
  const std::vector<Demand> demands = DemandsOf(view, options_.interference);
  Stages stages(view, demands, options_.interference);
  const Rewards rewards(stages, demands, options_.reward);
  const std::vector<Placed> placed = PlaceAll(stages, rewards, demands, random);
  std::vector<double> own(demands.size());
  const Second second = ShareAll(stages, rewards, &own, random);
  RememberPlaces(placed, own);
  view.current.replicas.clear();
  for (std::size_t gpu = 0; gpu < stages.gpus().size(); ++gpu) {
    for (const std::size_t member : stages.gpus()[gpu].members) {
      const Demand& demand = demands[member];
      view.current.replicas.push_back(
          {.model = demand.model, .gpu = gpu, .granules = 1, .fraction = demand.fraction});
    }
  }
  return second;
}

// The reward of the GPU under the local stage's present policy.
double Trainer::GreedyReward(const Stages& stages, const Rewards& rewards, std::size_t gpu) const {
  const GpuState& plan = stages.gpus()[gpu];
  if (plan.members.empty()) return 0;
  if (plan.members.size() > kSlots) return rewards.Sum(plan, stages.GuessedShares(plan));
  return rewards.Sum(plan, stages.SharesOf(plan, td3_.Act(stages.LocalState(plan))));
}

std::vector<Trainer::Placed> Trainer::PlaceAll(Stages& stages, const Rewards& rewards,
                                               const std::vector<Demand>& demands, Random& random) {
  const std::vector<std::size_t> all = AllGpus(stages);
  std::vector<double> before(all.size());
  std::vector<Placed> placed;
  for (std::size_t i = 0; i < demands.size(); ++i) {
    Stages::Choice choice = stages.ChoiceFor(i, all);
    if (choice.mask == 0) continue;  // refused
    const int action = sac_.Act(choice.features, choice.mask, /*explore=*/true, random);
    const std::size_t gpu = choice.groups[static_cast<std::size_t>(action)].front();
    const double cost = stages.Moves(i, gpu) ? kMoveCost : 0;
    stages.Put(i, gpu);
    const double reward = GreedyReward(stages, rewards, gpu);
    placed.push_back({std::move(choice), action, i, reward - before[gpu], cost});
    before[gpu] = reward;
  }
  return placed;
}

// `own`: receives the reward of each demand that has a place.
Trainer::Second Trainer::ShareAll(const Stages& stages, const Rewards& rewards,
                                  std::vector<double>* own, Random& random) {
  const learn::Exploration exploration = ExplorationAt(options_, done_);
  Second second;
  double replicas = 0;
  for (const GpuState& gpu : stages.gpus()) {
    if (gpu.members.empty()) continue;
    GpuShares shares = stages.GuessedShares(gpu);
    if (gpu.members.size() <= kSlots) {
      const learn::ShareState state = stages.LocalState(gpu);
      const std::vector<float> action = td3_.Explore(state, exploration, random);
      shares = stages.SharesOf(gpu, action);
      double reward = options_.rules.gain ? rewards.Gain(gpu, shares) : rewards.Sum(gpu, shares);
      if (options_.rules.scale) reward *= kPenalty;
      td3_.Remember({state, action, static_cast<float>(reward), state, true});
    }
    const std::vector<double> each = rewards.Each(gpu, shares);
    for (std::size_t i = 0; i < each.size(); ++i) (*own)[gpu.members[i]] = each[i];
    second.reward += std::accumulate(each.begin(), each.end(), 0.0);
    for (const double violations : stages.ViolationsOf(gpu, shares)) {
      second.violations += violations;
      ++replicas;
    }
  }
  second.violations /= std::max(1.0, replicas);
  return second;
}

// Each choice's next state is the next choice; the last one of the second ends the return.
void Trainer::RememberPlaces(const std::vector<Placed>& placed, const std::vector<double>& own) {
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const Placed& at = placed[i];
    const double reward = options_.own_reward ? own[at.demand] : at.change;
    const auto less_cost = static_cast<float>(reward - at.cost);
    const Stages::Choice& choice = at.choice;
    if (i + 1 == placed.size()) {
      sac_.Remember({choice.features, choice.mask, at.action, less_cost, {}, 0, true});
    } else {
      const Stages::Choice& next = placed[i + 1].choice;
      sac_.Remember(
          {choice.features, choice.mask, at.action, less_cost, next.features, next.mask, false});
    }
  }
}

PlacementNetworks Trainer::Networks() const { return {sac_.actor(), td3_.actor()}; }

std::uint64_t Trainer::Fingerprint() const {
  return learn::HashOf(fmt::format("{:016x} {}", MeaningOfWeights(), TextOf(options_)));
}

void Trainer::Save(std::ostream& stream) const {
  learn::StateWriter writer(stream);
  writer.Number(Fingerprint());
  writer.Number(static_cast<std::uint64_t>(done_));
  sac_.Save(writer);
  td3_.Save(writer);
}

Status Trainer::Load(std::istream& stream) {
  learn::StateReader reader(stream);
  const std::uint64_t fingerprint = reader.Number(), done = reader.Number();
  if (!reader.ok() || fingerprint != Fingerprint() ||
      done > static_cast<std::uint64_t>(options_.episodes)) {
    return Fail(ErrorCode::kInvalidArgument,
                "is not a checkpoint of a training with these options: give the options that it "
                "was begun with, or begin anew");
  }
  sac_.Load(reader);
  td3_.Load(reader);
  if (!reader.ok()) return Fail(ErrorCode::kInvalidArgument, "is cut off or damaged");
  done_ = static_cast<int>(done);
  return {};
}

}  // namespace lagoon
