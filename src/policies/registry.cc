#include "policies/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "policies/fair_srpt.h"
#include "policies/lagoon.h"
#include "policies/ordered.h"
#include "policies/prema.h"
#include "policies/response_ratio.h"
#include "policies/round_robin.h"
#include "policies/rounds.h"
#include "policies/time_slice.h"
#include "policies/weighted.h"

namespace lagoon {
namespace {

using Streams = SchedulerConfig::Streams;
using Preemption = SchedulerConfig::Preemption;
using Ranks = SchedulerConfig::Ranks;

template <typename P>
std::unique_ptr<Policy> Make(const PolicyConfig& config) {
  if constexpr (std::is_constructible_v<P, const PolicyConfig&>) {
    return std::make_unique<P>(config);
  } else {
    return std::make_unique<P>();
  }
}

struct Entry {
  std::string_view summary;
  SchedulerConfig config;
  std::unique_ptr<Policy> (*policy)(const PolicyConfig&);
  std::array<std::string_view, 13> parameters = {};  // names in SchedulerParameterTable()
};

// The configuration for plain policies: no preemption, and the device keeps the order of
// submission. The device gets as many kernels as fit, one of each job at a time (Paella 5.2).
constexpr SchedulerConfig Plain(std::string_view name, By order = By::kArrival) {
  return {.name = name,
          .ranks = Ranks::kSubmission,
          .depth = 1,
          .extra_blocks = 8,
          .block_events = 16,
          .policy = {.order = order}};
}

// All jobs are submitted when they arrive, so that the device decides (CUDA streams, Triton).
constexpr SchedulerConfig Submitted(std::string_view name, Streams streams) {
  return {.name = name, .streams = streams, .ranks = Ranks::kSubmission, .depth = 0};
}

// One job on the device at a time (Clockwork, PREMA).
constexpr SchedulerConfig OneJob(std::string_view name, std::uint32_t depth = 0) {
  return {.name = name,
          .streams = Streams::kOne,
          .ranks = Ranks::kSubmission,
          .max_active_jobs = depth == 0 ? 1U : 0U,
          .depth = depth,
          .one_part = depth != 0};
}

// One part of a job on the device at a time (SPLIT).
constexpr SchedulerConfig OnePart(std::string_view name, bool whole_jobs) {
  return {.name = name,
          .streams = Streams::kOne,
          .ranks = Ranks::kSubmission,
          .depth = 0,
          .one_part = true,
          .policy = {.whole_jobs = whole_jobs, .elastic = !whole_jobs}};
}

constexpr SchedulerConfig Lagoon(std::string_view name) {
  return {.name = name,
          .preemption = Preemption::kReset,
          .ranks = Ranks::kPolicy,
          .padding_kernels = 16,
          .padding_leaves = false,
          .padding_versions = true,
          .lend_units = true,
          .policy = {.order = By::kRemaining}};
}

constexpr SchedulerConfig LagoonRatio(std::string_view name) {
  SchedulerConfig config = Lagoon(name);
  config.preempt_by_rank = true;
  config.policy = {.order = By::kResponseRatio, .fairness_threshold = 1e9};
  return config;
}

// Real-time jobs go first.
constexpr SchedulerConfig Classes(SchedulerConfig config) {
  config.policy.real_time_first = true;
  return config;
}

constexpr SchedulerConfig Reef(std::string_view name, bool versions) {
  return Classes({.name = name,
                  .preemption = Preemption::kReset,
                  .padding_kernels = 1,
                  .padding_leaves = false,
                  .padding_versions = versions,
                  .max_real_time_jobs = 1});
}

// Best-effort kernels go in slices, and a slice that has begun ends before real-time work starts.
constexpr SchedulerConfig Slices(std::string_view name, std::uint32_t max_kernels,
                                 std::chrono::microseconds slice) {
  return Classes({.name = name,
                  .preemption = Preemption::kWait,
                  .max_kernels = max_kernels,
                  .kernel_slice = slice});
}

constexpr SchedulerConfig Admits(SchedulerConfig config) {
  config.admit_by_deadline = true;
  return config;
}

constexpr std::string_view kAdmit = "admit_by_deadline", kEvents = "block_events", kDepth = "depth",
                           kExtra = "extra_blocks", kFairness = "fairness_threshold",
                           kLend = "lend_units", kMost = "max_real_time_jobs",
                           kPacked = "packed_padding", kBandwidth = "padding_bandwidth",
                           kAhead = "padding_ahead", kPadding = "padding_kernels",
                           kCandidates = "padding_candidates", kLeaves = "padding_leaves",
                           kVersions = "padding_versions", kPreempt = "preempt_by_rank",
                           kElastic = "elastic", kDense = "dense", kPatience = "patience",
                           kQuantum = "quantum_us", kSlice = "slice_us", kTogether = "together";

// One entry per scheduler; docs/guide/schedulers.md describes each.
constexpr Entry kSchedulers[] = {
    {"One job at a time: real-time jobs first, each class in order of arrival",
     Classes(OneJob("sequential")),
     Make<OrderedPolicy>,
     {kAdmit}},
    {"All jobs in one stream, in order of arrival (Paella's CUDA-SS)",
     Submitted("single-stream", Streams::kOne),
     Make<OrderedPolicy>,
     {kAdmit}},
    {"A stream for each class of each model; the device decides (GPU streams, Triton)",
     Submitted("streams", Streams::kPerQueue), Make<OrderedPolicy>},
    {"As streams; real-time streams have the better priority (Triton's MAX and MIN)",
     {.name = "stream-priority", .streams = Streams::kPerQueue, .depth = 0},
     Make<OrderedPolicy>},
    {"A stream for each job, of 32; the device decides (Paella's MS-jbj)",
     Submitted("job-streams", Streams::kPerJob), Make<OrderedPolicy>},
    {"As job-streams, with one kernel of a job on the device at a time (Paella's MS-kbk)",
     {.name = "kernel-streams",
      .streams = Streams::kPerJob,
      .ranks = Ranks::kSubmission,
      .depth = 1},
     Make<OrderedPolicy>,
     {kDepth}},
    {"Real-time jobs first; best-effort kernels that run finish before them",
     Classes({.name = "wait", .streams = Streams::kPerQueue, .preemption = Preemption::kWait}),
     Make<OrderedPolicy>,
     {kAdmit, kDepth, kMost}},
    {"Real-time jobs first; one kernel of each class on the device at a time (Orion)",
     Classes({.name = "one-kernel", .max_kernels = 1}),
     Make<OrderedPolicy>,
     {kAdmit, kDepth, kMost}},
    // 100 us: the default bound in Tally's published source (src/tally/env.cpp).
    {"As wait; best-effort kernels go in slices that end within a time (Tally)",
     Slices("tally", /*max_kernels=*/0, std::chrono::microseconds(100)),
     Make<OrderedPolicy>,
     {kAdmit, kDepth, kMost, kSlice}},
    // Hummingbird profiles the size of its slices: ours are as small as the units allow.
    {"As tally, with one slice on the device at a time (Hummingbird)",
     Slices("hummingbird", /*max_kernels=*/1, std::chrono::microseconds(1)),
     Make<OrderedPolicy>,
     {kAdmit, kDepth, kMost, kSlice}},
    // 250 us: LithOS's atoms take 250 to 500 us.
    {"Real-time kernels before slices of best-effort ones, on shares that are lent (LithOS)",
     {.name = "lithos", .kernel_slice = std::chrono::microseconds(250), .lend_units = true},
     Make<OrderedPolicy>,
     {kDepth, kLend, kSlice}},
    {"Real-time jobs first; best-effort blocks that run leave (REEF without padding)",
     Classes({.name = "reset", .preemption = Preemption::kReset}),
     Make<OrderedPolicy>,
     {kAdmit, kDepth, kMost}},
    {"As reset, one real-time job at a time; best-effort kernels fill what it leaves idle (REEF)",
     Reef("reef", /*versions=*/false),
     Make<OrderedPolicy>,
     {kAdmit, kDepth, kMost, kPacked, kAhead, kBandwidth, kCandidates, kPadding, kLeaves,
      kVersions}},
    {"As reef; what fills runs in the version of its kernel that ends soonest there (REEF DKP-MV)",
     Reef("reef-mv", /*versions=*/true),
     Make<OrderedPolicy>,
     {kAdmit, kDepth, kMost, kPacked, kAhead, kBandwidth, kCandidates, kPadding, kLeaves,
      kVersions}},
    {"As reef; real-time jobs by deadline (if they have none: twice their own time), others by "
     "remaining time with fair shares",
     Lagoon("lagoon"),
     Make<LagoonPolicy>,
     {kAdmit, kDepth, kFairness, kLend, kMost, kPacked, kAhead, kBandwidth, kCandidates, kPadding,
      kLeaves, kVersions, kPreempt}},
    {"As lagoon, but others by response ratio, and of them the better ranks preempt the worse",
     LagoonRatio("lagoon-ratio"),
     Make<LagoonPolicy>,
     {kAdmit, kDepth, kFairness, kLend, kMost, kPacked, kAhead, kBandwidth, kCandidates, kPadding,
      kLeaves, kVersions, kPreempt}},
    {"In order of arrival", Plain("fifo"), Make<OrderedPolicy>, {kAdmit, kEvents, kDepth, kExtra}},
    {"Shortest job first",
     Plain("sjf", By::kTotal),
     Make<OrderedPolicy>,
     {kAdmit, kEvents, kDepth, kExtra}},
    {"Jobs take turns, of one kernel or of a time",
     Plain("rr"),
     Make<RoundRobinPolicy>,
     {kEvents, kDepth, kExtra, kQuantum}},
    {"Earliest deadline first",
     Plain("edf", By::kDeadline),
     Make<OrderedPolicy>,
     {kAdmit, kEvents, kDepth, kExtra}},
    {"Least slack first: deadline less remaining time",
     Plain("least-slack", By::kSlack),
     Make<OrderedPolicy>,
     {kAdmit, kEvents, kDepth, kExtra}},
    {"Shortest remaining time first",
     Plain("srpt", By::kRemaining),
     Make<OrderedPolicy>,
     {kAdmit, kEvents, kDepth, kExtra}},
    {"Shortest remaining time first, but a client far behind its share before all (Paella)",
     Plain("paella"),
     Make<FairSrptPolicy>,
     {kEvents, kDepth, kExtra, kFairness}},
    {"One part of one job at a time, by response ratio; jobs pass between two parts (SPLIT)",
     OnePart("split", /*whole_jobs=*/false),
     Make<ResponseRatioPolicy>,
     {kAdmit, kElastic, kDense, kPatience}},
    {"As split, but a job that has begun is not passed",
     OnePart("split-whole", /*whole_jobs=*/true),
     Make<ResponseRatioPolicy>,
     {kAdmit, kPatience}},
    {"One job at a time in order of arrival; what would be late is refused (Clockwork)",
     Admits(OneJob("clockwork")),
     Make<OrderedPolicy>,
     {kAdmit}},
    {"One job at a time: of those that have waited long enough the shortest (PREMA)",
     OneJob("prema"), Make<PremaPolicy>},
    {"As prema, but jobs also pass between two kernels", OneJob("prema-kernel", /*depth=*/1),
     Make<PremaPolicy>},
    {"Rounds: when the jobs of a round have ended, all that wait start together (RT-A)",
     Submitted("rt-a", Streams::kPerQueue),
     Make<RoundsPolicy>,
     {kTogether}},
    {"Each class of each model on the units of its share, all at the same time (GSLICE)",
     {.name = "shares", .ranks = Ranks::kSubmission},
     Make<OrderedPolicy>,
     {kDepth, kLend}},
    {"Classes of models take turns of the whole device, of one job or of a time (no MPS)",
     {.name = "time-slice", .streams = Streams::kOne, .ranks = Ranks::kSubmission},
     Make<TimeSlicePolicy>,
     {kDepth, kQuantum}},
    {"Each class of each model gets unit time by its weight, by ranks between blocks",
     {.name = "weighted", .ranks = Ranks::kPolicy},
     Make<WeightedPolicy>,
     {kDepth}},
};

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kSchedulers)> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kSchedulers[i].config.name;
  return names;
}();

const Entry* Find(std::string_view name) {
  const auto* entry =
      std::ranges::find(kSchedulers, name, [](const Entry& one) { return one.config.name; });
  return entry == std::end(kSchedulers) ? nullptr : entry;
}

std::vector<const SchedulerParameter*> ParametersOf(const Entry& entry) {
  std::vector<const SchedulerParameter*> parameters;
  for (const SchedulerParameter& parameter : SchedulerParameterTable()) {
    if (std::ranges::find(entry.parameters, parameter.name) != entry.parameters.end()) {
      parameters.push_back(&parameter);
    }
  }
  return parameters;
}

Status Apply(const Entry& entry, const std::pair<std::string, double>& chosen,
             SchedulerConfig& config) {
  const auto& [name, value] = chosen;
  const std::vector<const SchedulerParameter*> parameters = ParametersOf(entry);
  const auto found = std::ranges::find(parameters, name, &SchedulerParameter::name);
  if (found == parameters.end()) {
    std::vector<std::string_view> names;
    for (const SchedulerParameter* parameter : parameters) names.push_back(parameter->name);
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("scheduler '{}' has no parameter '{}'; it has: {}", entry.config.name, name,
                    names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  const SchedulerParameter& parameter = **found;
  if (!(value >= parameter.least && value <= parameter.most) ||
      (parameter.whole && value != std::floor(value))) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("scheduler '{}': {} = {}: must be {} from {} to {}", entry.config.name,
                            name, ValueText(value), parameter.whole ? "a whole number" : "a number",
                            ValueText(parameter.least), ValueText(parameter.most)));
  }
  parameter.set(config, value);
  return {};
}

}  // namespace

Result<Scheduler> MakeScheduler(std::string_view text) {
  LAGOON_ASSIGN_OR_RETURN(const SchedulerChoice choice, SchedulerChoice::Parse(text));
  return MakeScheduler(choice);
}

Result<Scheduler> MakeScheduler(const SchedulerChoice& choice) {
  const Entry* entry = Find(choice.name);
  if (entry == nullptr) {
    return Fail(ErrorCode::kNotFound, fmt::format("there is no scheduler '{}'; there are: {}",
                                                  choice.name, fmt::join(kNames, ", ")));
  }
  SchedulerConfig config = entry->config;
  for (const auto& parameter : choice.parameters) {
    LAGOON_RETURN_IF_ERROR(Apply(*entry, parameter, config));
  }
  return Scheduler{config, entry->policy(config.policy)};
}

std::span<const std::string_view> SchedulerNames() { return kNames; }

std::string_view SummaryOf(std::string_view name) {
  const Entry* entry = Find(name);
  return entry == nullptr ? "" : entry->summary;
}

std::vector<ParameterValue> ParametersOf(const SchedulerConfig& config) {
  std::vector<ParameterValue> values;
  const Entry* entry = Find(config.name);
  if (entry == nullptr) return values;
  for (const SchedulerParameter* parameter : ParametersOf(*entry)) {
    values.push_back({parameter, parameter->get(config)});
  }
  return values;
}

SchedulerChoice ChoiceOf(const SchedulerConfig& config) {
  SchedulerChoice choice{std::string(config.name)};
  const Entry* entry = Find(config.name);
  if (entry == nullptr) return choice;
  for (const auto& [parameter, value] : ParametersOf(config)) {
    if (value != parameter->get(entry->config)) {
      choice.parameters.emplace_back(parameter->name, value);
    }
  }
  return choice;
}

}  // namespace lagoon
