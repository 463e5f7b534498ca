#include "sim/training/train_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cluster/checks.h"

namespace lagoon {
namespace {

constexpr float kFirstEntropy = 0.9F, kLastEntropy = 0.1F;
constexpr learn::Exploration kFirstNoise{.shares = 0.3F, .levels = 0.8F};
constexpr learn::Exploration kLastNoise{.shares = 0.1F, .levels = 0.1F};  // Table 2's sigma_1
constexpr float kUniform = 0.05F;
constexpr double kFirstMostLoad = 1.5;

constexpr std::pair<const char*, bool TrainRules::*> kRules[] = {
    {"gain", &TrainRules::gain},   {"scale", &TrainRules::scale},     {"huber", &TrainRules::huber},
    {"noise", &TrainRules::noise}, {"uniform", &TrainRules::uniform}, {"loads", &TrainRules::loads},
};

// From `first` to `last` over the first half of the episodes, `last` from then on.
float Falling(float first, float last, const TrainOptions& options, int done) {
  const float part = 2 * static_cast<float>(done) / static_cast<float>(options.episodes);
  return first + (last - first) * std::min(1.0F, part);
}

}  // namespace

const std::vector<std::string>& TrainRuleNames() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, rule] : kRules) all.emplace_back(name);
    return all;
  }();
  return names;
}

Status AddRule(std::string_view name, TrainRules& rules) {
  for (const auto& [known, rule] : kRules) {
    if (name != known) continue;
    rules.*rule = true;
    return {};
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("there is no rule {} of training; there are {}", Quoted(name),
                          fmt::join(TrainRuleNames(), ", ")));
}

TrainOptions PaperTraining() {
  TrainOptions options;
  options.episodes = 1600;
  options.hidden = {256, 256};
  options.batch = 256;
  options.reward.capacity = true;
  options.own_reward = true;
  return options;
}

Status CheckTrainOptions(const TrainOptions& options) {
  LAGOON_RETURN_IF_ERROR(CheckBounds("episodes", options.episodes, {1, 1e6}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("steps of an episode", options.steps, {1, 1e5}));
  LAGOON_RETURN_IF_ERROR(
      CheckBounds("transitions of a batch", static_cast<double>(options.batch), {1, 65536}));
  LAGOON_RETURN_IF_ERROR(CheckBounds("updates of a step", options.updates, {1, 1000}));
  for (const int size : options.hidden) {
    LAGOON_RETURN_IF_ERROR(CheckBounds("neurons of a hidden layer", size, {1, 4096}));
  }
  return {};
}

float EntropyAt(const TrainOptions& options, int done) {
  return Falling(kFirstEntropy, kLastEntropy, options, done);
}

learn::Exploration ExplorationAt(const TrainOptions& options, int done) {
  learn::Exploration exploration = kLastNoise;
  if (options.rules.noise) {
    exploration.shares = Falling(kFirstNoise.shares, kLastNoise.shares, options, done);
    exploration.levels = Falling(kFirstNoise.levels, kLastNoise.levels, options, done);
  }
  if (options.rules.uniform) exploration.uniform = kUniform;
  return exploration;
}

TrainingRanges RangesAt(const TrainOptions& options, int done) {
  TrainingRanges ranges = options.ranges;
  if (options.rules.loads &&
      4 * static_cast<std::int64_t>(done) < 3 * std::int64_t{options.episodes}) {
    ranges.most_load = std::clamp(kFirstMostLoad, ranges.least_load, ranges.most_load);
  }
  return ranges;
}

std::string TextOf(const TrainOptions& options) {
  const TrainingRanges& ranges = options.ranges;
  const TrainRules& rules = options.rules;
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}",
                     options.episodes, options.steps, options.seed, options.interference,
                     fmt::join(options.hidden, ","), options.batch, options.updates, options.rate,
                     options.reward.capacity, options.reward.by_requests, options.own_reward,
                     rules.gain, rules.scale, rules.huber, rules.noise, rules.uniform, rules.loads,
                     ranges.gpus, ranges.fewest_models, ranges.most_models, ranges.least_load,
                     ranges.most_load, ranges.published, ranges.scarce_memory);
}

}  // namespace lagoon
