#include "sim/training/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "base/check.h"
#include "cluster/checks.h"
#include "learn/weights.h"
#include "sim/learn/state_file.h"

namespace lagoon {
namespace {

constexpr float kFirstEntropy = 0.9F, kLastEntropy = 0.1F;
constexpr int kExaminations = 40;
constexpr std::uint32_t kExaminationSeed = 0x7e57;

learn::SacOptions GlobalOptions(const TrainOptions& options) {
  learn::SacOptions sac;
  sac.features = GlobalFeatures();
  sac.actions = kGroups;
  sac.hidden = options.hidden;
  sac.first_temperature = 0.1F;  // rewards are a 40th of the paper's
  sac.batch = options.batch;
  sac.rate *= options.rate;
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

Status CheckTrainOptions(const TrainOptions& options) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("episodes", options.episodes, {1, 1e6}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("steps of an episode", options.steps, {1, 1e5}));
  LAGOON_RETURN_IF_ERROR(
      CheckBounds("transitions of a batch", static_cast<double>(options.batch), {1, 65536}));
  for (const int size : options.hidden) {
    LAGOON_RETURN_IF_ERROR(CheckBounds("neurons of a hidden layer", size, {1, 4096}));
  }
  return {};
}

Trainer::Trainer(const TrainOptions& options)
    : options_(options),
      first_(options.seed),
      sac_(GlobalOptions(options), first_),
      td3_(LocalOptions(options), first_) {}

float Trainer::EntropyTarget() const {
  const float part = 2 * static_cast<float>(done_) / static_cast<float>(options_.episodes);
  return kFirstEntropy + (kLastEntropy - kFirstEntropy) * std::min(1.0F, part);
}

EpisodeResult Trainer::RunEpisode() {
  // Each episode draws from a generator of its own, so that a resumed training draws the same.
  Random random(SeedOf(options_.seed, done_));
  TrainingEpisode episode(options_.ranges, random);
  EpisodeResult result{.episode = done_ + 1};
  for (int step = 0; step < options_.steps; ++step) {
    if (step > 0) episode.Walk(random);
    const Second second = RunSecond(episode.view(), random);
    result.reward += second.reward / options_.steps;
    result.violations += second.violations / options_.steps;
    sac_.Learn(EntropyTarget(), random);
    td3_.Learn(random);
  }
  result.temperature = sac_.temperature();
  ++done_;
  return result;
}

Trainer::Second Trainer::RunSecond(PlacementView& view, Random& random) {
  const std::vector<Demand> demands = DemandsOf(view, options_.interference);
  Stages stages(view, demands, options_.interference);
  PlaceAll(stages, demands.size(), random);
  const Second second = ShareAll(stages, random);
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
double Trainer::GreedyReward(const Stages& stages, std::size_t gpu, Random& random) const {
  const GpuState& plan = stages.gpus()[gpu];
  if (plan.members.empty()) return 0;
  if (plan.members.size() > kSlots) return plan.reward;
  const std::vector<float> action = td3_.Act(stages.LocalState(plan), /*explore=*/false, random);
  return stages.RewardOf(plan, stages.SharesOf(plan, action));
}

void Trainer::PlaceAll(Stages& stages, std::size_t demands, Random& random) {
  const std::vector<std::size_t> all = AllGpus(stages);
  std::vector<double> rewards(all.size());
  struct Step {
    Stages::Choice choice;
    int action = 0;
    float reward = 0;
  };
  std::optional<Step> before;
  for (std::size_t i = 0; i < demands; ++i) {
    Stages::Choice choice = stages.ChoiceFor(i, all);
    if (choice.mask == 0) continue;  // refused
    if (before) {
      sac_.Remember({before->choice.features, before->choice.mask, before->action, before->reward,
                     choice.features, choice.mask, false});
    }
    const int action = sac_.Act(choice.features, choice.mask, /*explore=*/true, random);
    const std::size_t gpu = choice.groups[static_cast<std::size_t>(action)].front();
    const double cost = stages.Moves(i, gpu) ? kMoveCost : 0;
    stages.Put(i, gpu);
    const double reward = GreedyReward(stages, gpu, random);
    const auto change = static_cast<float>(reward - rewards[gpu] - cost);
    before = Step{std::move(choice), action, change};
    rewards[gpu] = reward;
  }
  if (!before) return;
  sac_.Remember(
      {before->choice.features, before->choice.mask, before->action, before->reward, {}, 0, true});
}

Trainer::Second Trainer::ShareAll(const Stages& stages, Random& random) {
  Second second;
  double replicas = 0;
  for (const GpuState& gpu : stages.gpus()) {
    if (gpu.members.empty()) continue;
    GpuShares shares = stages.GuessedShares(gpu);
    if (gpu.members.size() <= kSlots) {
      const learn::ShareState state = stages.LocalState(gpu);
      const std::vector<float> action = td3_.Act(state, /*explore=*/true, random);
      shares = stages.SharesOf(gpu, action);
      const double reward = stages.RewardOf(gpu, shares);
      td3_.Remember({state, action, static_cast<float>(reward), state, true});
    }
    second.reward += stages.RewardOf(gpu, shares);
    for (const double violations : stages.ViolationsOf(gpu, shares)) {
      second.violations += violations;
      ++replicas;
    }
  }
  second.violations /= std::max(1.0, replicas);
  return second;
}

PlacementNetworks Trainer::Networks() const { return {sac_.actor(), td3_.actor()}; }

Examination Trainer::Examine() const {
  Random random(kExaminationSeed);
  LearnedPlacer placer("examined", Networks(),
                       {.interference = options_.interference, .guarded = false});
  Examination sum;
  for (int i = 0; i < kExaminations; ++i) {
    const TrainingEpisode episode(options_.ranges, random);
    const GuessResult learned = Judge(episode.view(), placer.Place(episode.view()));
    const GuessResult guess = Guess(episode.view(), options_.interference);
    sum.reward += learned.reward / kExaminations;
    sum.violations += learned.violations / kExaminations;
    sum.guessed_reward += guess.reward / kExaminations;
    sum.guessed_violations += guess.violations / kExaminations;
  }
  return sum;
}

std::uint64_t Trainer::Fingerprint() const {
  const TrainingRanges& ranges = options_.ranges;
  return learn::HashOf(
      fmt::format("{:016x} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", MeaningOfWeights(),
                  options_.episodes, options_.steps, options_.seed, options_.interference,
                  options_.hidden.front(), options_.hidden.back(), options_.batch, options_.rate,
                  ranges.gpus, ranges.fewest_models, ranges.most_models, ranges.least_load,
                  ranges.most_load, ranges.published, ranges.scarce_memory));
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

GuessResult Guess(const PlacementView& view, bool interference) {
  const std::vector<Demand> demands = DemandsOf(view, interference);
  Stages stages(view, demands, interference);
  for (std::size_t i = 0; i < demands.size(); ++i) {
    const Stages::Choice choice = stages.ChoiceFor(i, AllGpus(stages));
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

GuessResult Judge(const PlacementView& view, const Assignment& assignment) {
  std::vector<Demand> demands;
  for (const PlacedReplica& replica : assignment.replicas) {
    const ModelView& model = view.models[replica.model];
    Demand demand{.model = replica.model,
                  .fraction = replica.fraction,
                  .rate = model.rate * replica.fraction,
                  .slo_ms = model.SloMs(),
                  .latency = model.latency};
    demands.push_back(demand);
  }
  // The scale of a model does not depend on its replicas.
  const std::vector<Demand> all = DemandsOf(view, true);
  for (Demand& demand : demands) {
    demand.scale = std::ranges::find(all, demand.model, &Demand::model)->scale;
  }
  const Stages stages(view, demands, true);
  GuessResult result;
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
    result.reward += stages.RewardOf(plan, shares);
    for (const double violations : stages.ViolationsOf(plan, shares)) {
      result.violations += violations / static_cast<double>(demands.size());
    }
  }
  return result;
}

}  // namespace lagoon
