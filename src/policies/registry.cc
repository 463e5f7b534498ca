#include "policies/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "policies/fifo.h"
#include "policies/realtime_first.h"

namespace lagoon {
namespace {

using Streams = SchedulerConfig::Streams;
using Preemption = SchedulerConfig::Preemption;

template <typename P>
std::unique_ptr<Policy> Make() {
  return std::make_unique<P>();
}

struct Entry {
  std::string_view name;
  Streams streams;
  Preemption preemption;
  bool ranks_by_class;
  std::uint32_t max_active_jobs;
  std::uint32_t depth;
  std::unique_ptr<Policy> (*policy)();
};

// One line a scheduler; docs/schedulers.md says what each stands for.
constexpr Entry kSchedulers[] = {
    {"sequential", Streams::kOne, Preemption::kNone, false, 1, 0, Make<RealTimeFirstPolicy>},
    {"streams", Streams::kPerQueue, Preemption::kNone, false, 0, 0, Make<FifoPolicy>},
    {"wait", Streams::kPerQueue, Preemption::kWait, true, 0, 4, Make<RealTimeFirstPolicy>},
    {"reset", Streams::kPooled, Preemption::kReset, true, 0, 4, Make<RealTimeFirstPolicy>},
};

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kSchedulers)> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kSchedulers[i].name;
  return names;
}();

}  // namespace

Result<Scheduler> MakeScheduler(std::string_view name) {
  for (const Entry& entry : kSchedulers) {
    if (entry.name != name) continue;
    SchedulerConfig config;
    config.name = name;
    config.streams = entry.streams;
    config.preemption = entry.preemption;
    config.ranks_by_class = entry.ranks_by_class;
    config.max_active_jobs = entry.max_active_jobs;
    config.depth = entry.depth;
    return Scheduler{std::move(config), entry.policy()};
  }
  return Fail(ErrorCode::kNotFound, fmt::format("there is no scheduler '{}'; there are: {}", name,
                                                fmt::join(kNames, ", ")));
}

std::span<const std::string_view> SchedulerNames() { return kNames; }

}  // namespace lagoon
