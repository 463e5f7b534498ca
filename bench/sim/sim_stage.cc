#include "bench/sim/sim_stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/measure/statistics.h"
#include "bench/sim/sim_plan.h"

namespace lagoon::bench {
namespace {

constexpr std::size_t kMaxPending = 1'000'000;  // no request is dropped: lateness shows as latency
constexpr Nanoseconds kStandaloneSpan = std::chrono::seconds(1);
constexpr Nanoseconds kStandaloneSettle = std::chrono::milliseconds(100);

}  // namespace

Result<SimStage> SimStage::Open(const SimDeviceOptions& options, Scheduler scheduler,
                                std::span<const SimStageQueue> queues, const SimStageHooks& hooks) {
  SimStage stage;
  const bool versions = HasVersions(scheduler.config);
  SimDeviceOptions own = options;
  own.joined_padding = !scheduler.config.padding_leaves;
  LAGOON_ASSIGN_OR_RETURN(stage.device_, SimDevice::Create(own));
  stage.start_ = stage.device_->Now();
  if (hooks.wrap) stage.wrapped_ = hooks.wrap(*stage.device_);
  Device& device = stage.wrapped_ ? *stage.wrapped_ : *stage.device_;
  stage.dispatcher_ =
      std::make_unique<Dispatcher>(device, scheduler.config, std::move(scheduler.policy),
                                   hooks.watch ? hooks.watch(*stage.device_) : nullptr);
  std::map<const SimModel*, std::shared_ptr<const LoadedPlan>> plans;
  for (const SimStageQueue& wanted : queues) {
    stage.queues_.emplace_back();
    if (wanted.model == nullptr) continue;
    std::shared_ptr<const LoadedPlan>& plan = plans[wanted.model];
    if (plan == nullptr) {
      LAGOON_ASSIGN_OR_RETURN(plan, LoadSimPlan(*wanted.model, *stage.device_, versions));
    }
    QueueOptions queue;
    queue.name = wanted.name;
    queue.job_class = wanted.job_class;
    queue.max_pending = kMaxPending;
    queue.units = wanted.units;
    for (std::size_t i = 0; i < wanted.instances; ++i) {
      LAGOON_ASSIGN_OR_RETURN(stage.instances_.emplace_back(),
                              Instance::Create(plan, *stage.device_));
      queue.instances.push_back(stage.instances_.back().get());
    }
    LAGOON_ASSIGN_OR_RETURN(stage.queues_.back(), stage.dispatcher_->AddQueue(std::move(queue)));
  }
  return stage;
}

std::vector<VirtualRun> SimStage::Run(const std::vector<DisbClient>& clients,
                                      const DisbWindow& window, Nanoseconds settle) {
  Device& device = wrapped_ ? *wrapped_ : *device_;
  VirtualClients run(device, *dispatcher_, clients, queues_);
  return run.Run(window, settle);
}

double SimStage::Fraction(Nanoseconds unit_time) const {
  const std::chrono::duration<double> all = (device_->Now() - start_) * device_->info().units;
  return unit_time / all;
}

Result<Nanoseconds> SimStandalone(const SimDeviceOptions& options, const SimModel& model) {
  const std::string name = model.Name();
  const std::vector<DisbClient> client{{name, name, JobClass::kRealTime, {}}};
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler("sequential"));
  const SimStageQueue queue{name, JobClass::kRealTime, &model};
  LAGOON_ASSIGN_OR_RETURN(SimStage stage,
                          SimStage::Open(options, std::move(scheduler), {&queue, 1}));
  const Nanoseconds span = std::max(kStandaloneSpan, 2 * model.statistics.time);
  const std::vector<VirtualRun> runs = stage.Run(client, {span, {{}}}, kStandaloneSettle);
  const std::vector<double>& latencies = runs.front().latencies_ms;
  if (latencies.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("simulated device '{}': no request of '{}' alone ends within {} ms: "
                            "its constants or the kernels are too slow",
                            options.gpu.name, name, span.count() / 1'000'000));
  }
  return Nanoseconds(static_cast<std::int64_t>(Mean(latencies) * 1e6));
}

}  // namespace lagoon::bench
