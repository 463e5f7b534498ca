#include "cluster/learned/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "cluster/placement/forecast.h"
#include "cluster/shares.h"
#include "learn/weights.h"

namespace lagoon {
namespace {

constexpr int kOwnFeatures = 13, kRestFeatures = 2, kGroupFeatures = 8;
constexpr int kSlotFeatures = 14, kGpuFeatures = 3;
// The features in their order. A change of their computation must change this text, so that old
// weights are refused.
constexpr char kMeaning[] =
    "1 own: rate/scale queued/(rate+1) slo/100 need log2(rows)/5 batch/slo single/slo cache dram "
    "constant cache dram memory; rest: need count; group: can memory cache dram need before count "
    "gain; slot: present + need log2(rows)/5 batch/slo single/slo rate/scale queued cache dram "
    "constant cache dram slo gain; gpu: need count memory; action: share rows by log";

constexpr double kMostRatio = 3;       // features are bounded
constexpr double kLevelMargin = 0.05;  // of a level, so that both ends can be reached

float Bounded(double value) {
  return static_cast<float>(std::clamp(value, -kMostRatio, kMostRatio));
}

double LogRows(std::int64_t rows) { return std::log2(static_cast<double>(rows)) / 5; }

// Levels 0.05 to 0.95 are 1 to `most` rows, on a logarithmic scale.
double LevelOf(std::int64_t rows, std::int64_t most) {
  if (most <= 1) return 0.5;
  const double part = std::log(static_cast<double>(rows)) / std::log(static_cast<double>(most));
  return kLevelMargin + (1 - 2 * kLevelMargin) * part;
}

std::int64_t RowsOf(double level, std::int64_t most) {
  const double part = std::clamp((level - kLevelMargin) / (1 - 2 * kLevelMargin), 0.0, 1.0);
  const double rows = std::pow(static_cast<double>(most), part);
  return std::clamp<std::int64_t>(std::llround(rows), 1, most);
}

float Logit(double part) { return static_cast<float>(std::log(part / (1 - part))); }

double QueuedSeconds(const Demand& demand) { return demand.queued / (demand.rate + 1); }

}  // namespace

int GlobalFeatures() { return kOwnFeatures + kRestFeatures + kGroups * kGroupFeatures; }
int LocalFeatures() { return kSlots * kSlotFeatures + kGpuFeatures; }

std::uint64_t MeaningOfWeights() {
  return learn::HashOf(fmt::format("{} {} {}", kMeaning, kGroups, kSlots));
}

Stages::Stages(const PlacementView& view, const std::vector<Demand>& demands, bool interference)
    : view_(view), demands_(demands), interference_(interference) {
  for (const GpuView& gpu : view.gpus) gpus_.push_back({.view = gpu});
  before_.resize(view.models.size());
  for (const PlacedReplica& replica : view.current.replicas) {
    if (replica.model < before_.size()) before_[replica.model].push_back(replica.gpu);
  }
  need_left_.resize(demands.size() + 1);
  for (std::size_t i = demands.size(); i-- > 0;) {
    need_left_[i] = need_left_[i + 1] + demands[i].need;
  }
}

bool Stages::CanTake(std::size_t demand, std::size_t gpu) const {
  const GpuState& plan = gpus_[gpu];
  const Demand& wanted = demands_[demand];
  if (plan.memory + wanted.memory_bytes > plan.view.memory_bytes) return false;
  if (plan.members.size() >= plan.view.granules) return false;
  return std::ranges::none_of(
      plan.members, [&](std::size_t member) { return demands_[member].model == wanted.model; });
}

bool Stages::Moves(std::size_t demand, std::size_t gpu) const {
  const std::vector<std::size_t>& served = ServedBy(demand);
  return !served.empty() && std::ranges::find(served, gpu) == served.end();
}

void Stages::AddOwn(const Demand& demand, std::vector<float>* features) const {
  const SlowdownTerms terms = interference_ ? demand.latency->slowdown() : SlowdownTerms();
  const double memory = static_cast<double>(view_.gpus.front().memory_bytes);
  for (const double value :
       {demand.rate / demand.scale, QueuedSeconds(demand), demand.slo_ms / 100, demand.need,
        LogRows(demand.rows), demand.batch_ms / demand.slo_ms, demand.single_ms / demand.slo_ms,
        demand.load.cache, demand.load.dram, terms.constant, terms.cache, terms.dram,
        static_cast<double>(demand.memory_bytes) / std::max(memory, 1.0)}) {
    features->push_back(Bounded(value));
  }
}

// The means over the group's GPUs, and what the GPU with the least need would gain or lose.
void Stages::AddGroup(std::size_t demand, const std::vector<std::size_t>& gpus,
                      std::vector<float>* features) const {
  const std::vector<std::size_t>& served = ServedBy(demand);
  const GpuState* least = nullptr;
  double memory = 0, cache = 0, dram = 0, need = 0, before = 0, count = 0;
  for (const std::size_t gpu : gpus) {
    const GpuState& plan = gpus_[gpu];
    const auto all = std::max(1.0, static_cast<double>(plan.view.memory_bytes));
    memory += static_cast<double>(plan.memory) / all;
    cache += plan.load.cache;
    dram += plan.load.dram;
    need += plan.need;
    count += static_cast<double>(plan.members.size()) / kSlots;
    if (std::ranges::find(served, gpu) != served.end()) before = 1;
    if (!CanTake(demand, gpu)) continue;
    if (least == nullptr || plan.need < least->need) least = &plan;
  }
  double gain = -1;
  if (least != nullptr) {
    GpuState with = *least;
    with.members.push_back(demand);
    gain = GuessedReward(with) - least->reward;
  }
  const auto size = static_cast<double>(gpus.size());
  for (const double value : {least != nullptr ? 1.0 : 0.0, memory / size, cache / size, dram / size,
                             need / size, before, count / size, gain}) {
    features->push_back(Bounded(value));
  }
}

Stages::Choice Stages::ChoiceFor(std::size_t demand, const std::vector<std::size_t>& among) const {
  Choice choice;
  const std::size_t groups = std::min<std::size_t>(kGroups, among.size());
  for (std::size_t i = 0; i < groups; ++i) {
    const auto at = [&](std::size_t group) {
      return among.begin() + static_cast<std::ptrdiff_t>(group * among.size() / groups);
    };
    choice.groups.emplace_back(at(i), at(i + 1));
  }
  const auto mean_need = [&](const std::vector<std::size_t>& gpus) {
    double need = 0;
    for (const std::size_t gpu : gpus) need += gpus_[gpu].need;
    return need / static_cast<double>(gpus.size());
  };
  std::ranges::stable_sort(choice.groups, {}, mean_need);
  AddOwn(demands_[demand], &choice.features);
  const auto gpus = static_cast<double>(view_.gpus.size());
  choice.features.push_back(Bounded(need_left_[demand] / gpus));
  choice.features.push_back(Bounded(static_cast<double>(demands_.size() - demand) / gpus / 4));
  for (std::size_t i = 0; i < groups; ++i) {
    AddGroup(demand, choice.groups[i], &choice.features);
    if (std::ranges::any_of(choice.groups[i],
                            [&](std::size_t gpu) { return CanTake(demand, gpu); })) {
      choice.mask |= 1U << i;
    }
  }
  choice.features.resize(static_cast<std::size_t>(GlobalFeatures()));
  return choice;
}

void Stages::Put(std::size_t demand, std::size_t gpu) {
  LAGOON_CHECK(CanTake(demand, gpu));
  GpuState& plan = gpus_[gpu];
  const Demand& placed = demands_[demand];
  plan.members.push_back(demand);
  plan.memory += placed.memory_bytes;
  plan.need += placed.need;
  plan.load += placed.load;
  plan.reward = GuessedReward(plan);
}

learn::ShareState Stages::LocalState(const GpuState& gpu) const {
  LAGOON_CHECK(!gpu.members.empty() && gpu.members.size() <= kSlots);
  learn::ShareState state;
  state.offsets.resize(2 * kSlots);
  state.present.resize(kSlots);
  for (std::size_t slot = 0; slot < gpu.members.size(); ++slot) {
    const Demand& demand = demands_[gpu.members[slot]];
    const SlowdownTerms terms = interference_ ? demand.latency->slowdown() : SlowdownTerms();
    const double share = std::min(demand.need, 1.0);
    const double more = demand.latency->AloneMs(demand.rows, std::min(1.0, 1.25 * share));
    for (const double value :
         {1.0, demand.need, LogRows(demand.rows), demand.batch_ms / demand.slo_ms,
          demand.single_ms / demand.slo_ms, demand.rate / demand.scale, QueuedSeconds(demand),
          demand.load.cache, demand.load.dram, terms.constant, terms.cache, terms.dram,
          demand.slo_ms / 100, 1 - more / demand.batch_ms}) {
      state.features.push_back(Bounded(value));
    }
    state.offsets[slot] = static_cast<float>(std::log(demand.need));
    state.offsets[kSlots + slot] = Logit(LevelOf(demand.rows, demand.most_rows));
    state.present[slot] = 1;
  }
  state.features.resize(kSlots * kSlotFeatures);
  state.features.push_back(Bounded(gpu.need));
  state.features.push_back(Bounded(static_cast<double>(gpu.members.size()) / kSlots));
  const auto memory = std::max(1.0, static_cast<double>(gpu.view.memory_bytes));
  state.features.push_back(Bounded(static_cast<double>(gpu.memory) / memory));
  return state;
}

void Stages::FitMemory(const GpuState& gpu, GpuShares* shares) const {
  std::int64_t left = gpu.view.memory_bytes;
  const auto extra = [&](std::size_t i) {
    return (shares->rows[i] - 1) * demands_[gpu.members[i]].row_bytes;
  };
  for (std::size_t i = 0; i < gpu.members.size(); ++i) {
    left -= demands_[gpu.members[i]].memory_bytes + extra(i);
  }
  while (left < 0) {
    std::size_t most = 0;
    for (std::size_t i = 1; i < gpu.members.size(); ++i) {
      if (extra(i) > extra(most)) most = i;
    }
    if (shares->rows[most] == 1) return;  // the members do not fit with batches of one row either
    const std::int64_t before = extra(most);
    shares->rows[most] = (shares->rows[most] + 1) / 2;
    left += before - extra(most);
  }
}

GpuShares Stages::SharesOf(const GpuState& gpu, const std::vector<float>& action) const {
  LAGOON_CHECK(action.size() == 2 * kSlots);
  GpuShares shares;
  for (std::size_t slot = 0; slot < gpu.members.size(); ++slot) {
    shares.shares.push_back(action[slot]);
    shares.rows.push_back(RowsOf(action[kSlots + slot], demands_[gpu.members[slot]].most_rows));
  }
  FitMemory(gpu, &shares);
  return shares;
}

GpuShares Stages::GuessedShares(const GpuState& gpu) const {
  GpuShares shares;
  double sum = 0;
  for (const std::size_t member : gpu.members) sum += demands_[member].need;
  for (const std::size_t member : gpu.members) {
    shares.shares.push_back(demands_[member].need / sum);
    shares.rows.push_back(demands_[member].rows);
  }
  FitMemory(gpu, &shares);
  return shares;
}

std::vector<MemberForecast> Stages::ForecastsOf(const GpuState& gpu,
                                                const GpuShares& shares) const {
  const std::size_t count = gpu.members.size();
  std::vector<DeviceLoad> loads(count);
  DeviceLoad sum;
  constexpr double kLeastShare = 1e-3;
  for (std::size_t i = 0; interference_ && i < count; ++i) {
    const double share = std::max(shares.shares[i], kLeastShare);
    loads[i] = demands_[gpu.members[i]].latency->LoadOf(shares.rows[i], share);
    sum += loads[i];
  }
  std::vector<MemberForecast> forecasts;
  for (std::size_t i = 0; i < count; ++i) {
    const Demand& demand = demands_[gpu.members[i]];
    const double share = std::max(shares.shares[i], kLeastShare);
    const DeviceLoad others{sum.cache - loads[i].cache, sum.dram - loads[i].dram};
    const double factor = interference_ ? demand.latency->Slowdown(others, count > 1) : 1;
    const double batch_ms = factor * demand.latency->AloneMs(shares.rows[i], share);
    const double violations =
        ViolationRate({.rate = demand.rate,
                       .rows = shares.rows[i],
                       .batch_ms = batch_ms,
                       .single_ms = factor * demand.latency->AloneMs(1, share),
                       .slo_ms = demand.slo_ms});
    forecasts.push_back({violations, batch_ms});
  }
  return forecasts;
}

std::vector<double> Stages::ViolationsOf(const GpuState& gpu, const GpuShares& shares) const {
  std::vector<double> violations;
  for (const MemberForecast& forecast : ForecastsOf(gpu, shares)) {
    violations.push_back(forecast.violations);
  }
  return violations;
}

double Stages::RewardOf(const GpuState& gpu, const GpuShares& shares) const {
  const std::vector<double> violations = ViolationsOf(gpu, shares);
  double reward = 0;
  for (std::size_t i = 0; i < gpu.members.size(); ++i) {
    const Demand& demand = demands_[gpu.members[i]];
    const double goodput = demand.rate * (1 - violations[i]);
    reward += goodput / demand.scale / kPenalty - violations[i];
  }
  return reward;
}

std::vector<std::uint32_t> GranulesOf(const std::vector<double>& shares, std::uint32_t granules) {
  LAGOON_CHECK(!shares.empty());
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<double> exact;
  for (const double share : shares) exact.push_back(share / sum * granules);
  const auto whole = ToGranules(exact, granules);
  LAGOON_CHECK(whole.has_value());
  return *whole;
}

}  // namespace lagoon
