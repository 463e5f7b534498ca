#include "policies/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "policies/fair_srpt.h"
#include "policies/lagoon.h"
#include "policies/ordered.h"
#include "policies/realtime_first.h"

namespace lagoon {
namespace {

using Streams = SchedulerConfig::Streams;
using Preemption = SchedulerConfig::Preemption;
using Ranks = SchedulerConfig::Ranks;

template <typename P>
std::unique_ptr<Policy> Make() {
  return std::make_unique<P>();
}

// In order of arrival, whatever the class. Where every job is submitted when it arrives, the device
// decides (CUDA streams, Triton).
using ArrivalPolicy = OrderedPolicy<By::kArrival>;

struct Entry {
  SchedulerConfig config;
  std::unique_ptr<Policy> (*policy)();
};

// The configuration for plain policies: no preemption, and the device keeps the order of
// submission. The device gets as many kernels as fit, one of each job at a time (Paella 5.2).
constexpr SchedulerConfig Plain(std::string_view name) {
  return {.name = name, .ranks = Ranks::kSubmission, .depth = 1, .extra_blocks = 8};
}

// One entry per scheduler; docs/guide/schedulers.md describes each.
constexpr Entry kSchedulers[] = {
    {{.name = "sequential",
      .streams = Streams::kOne,
      .ranks = Ranks::kSubmission,
      .max_active_jobs = 1,
      .depth = 0},
     Make<RealTimeFirstPolicy>},
    {{.name = "single-stream", .streams = Streams::kOne, .ranks = Ranks::kSubmission, .depth = 0},
     Make<ArrivalPolicy>},
    {{.name = "streams", .streams = Streams::kPerQueue, .ranks = Ranks::kSubmission, .depth = 0},
     Make<ArrivalPolicy>},
    {{.name = "job-streams", .streams = Streams::kPerJob, .ranks = Ranks::kSubmission, .depth = 0},
     Make<ArrivalPolicy>},
    {{.name = "kernel-streams",
      .streams = Streams::kPerJob,
      .ranks = Ranks::kSubmission,
      .depth = 1},
     Make<ArrivalPolicy>},
    {{.name = "wait", .streams = Streams::kPerQueue, .preemption = Preemption::kWait},
     Make<RealTimeFirstPolicy>},
    {{.name = "one-kernel", .max_kernels = 1}, Make<RealTimeFirstPolicy>},
    {{.name = "reset", .preemption = Preemption::kReset}, Make<RealTimeFirstPolicy>},
    {{.name = "reef", .preemption = Preemption::kReset, .padding_kernels = 1},
     Make<RealTimeFirstPolicy>},
    {{.name = "lagoon",
      .preemption = Preemption::kReset,
      .ranks = Ranks::kPolicy,
      .padding_kernels = 16},
     Make<LagoonPolicy>},
    {Plain("fifo"), Make<ArrivalPolicy>},
    {Plain("sjf"), Make<OrderedPolicy<By::kTotal>>},
    {Plain("rr"), Make<OrderedPolicy<By::kLeastServed>>},
    {Plain("edf"), Make<OrderedPolicy<By::kDeadline>>},
    {Plain("least-slack"), Make<OrderedPolicy<By::kSlack>>},
    {Plain("srpt"), Make<OrderedPolicy<By::kRemaining>>},
    {Plain("paella"), Make<FairSrptPolicy>},
};

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kSchedulers)> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kSchedulers[i].config.name;
  return names;
}();

}  // namespace

Result<Scheduler> MakeScheduler(std::string_view name) {
  for (const Entry& entry : kSchedulers) {
    if (entry.config.name == name) return Scheduler{entry.config, entry.policy()};
  }
  return Fail(ErrorCode::kNotFound, fmt::format("there is no scheduler '{}'; there are: {}", name,
                                                fmt::join(kNames, ", ")));
}

std::span<const std::string_view> SchedulerNames() { return kNames; }

}  // namespace lagoon
