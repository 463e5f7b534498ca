#include "bench/sim/preemption.h"

#include <random>

namespace lagoon::bench {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Nanoseconds kRealTimeKernel = microseconds(200);
// Mean gap between real-time requests, so that best-effort work has most of the device's time.
constexpr Nanoseconds kGap = milliseconds(12);

// Uniform in [0, 1).
double Uniform(std::mt19937& random) { return random() / 4294967296.0; }

struct Probe final : JobClient {
  void Finished(const JobResult& result_in) override {
    result = result_in;
    done = true;
  }
  Nanoseconds took() const { return result.finished - result.posted; }
  JobResult result;
  bool done = false;
};

Status Post(SimStage& stage, std::size_t queue, Probe& probe) {
  const auto posted =
      stage.dispatcher().Post({*stage.queues()[queue], kNoDeadline, {}, {}, &probe});
  if (!posted) return tl::unexpected(posted.error());
  return {};
}

}  // namespace

Result<Scheduler> PreemptionWay::Make() const {
  LAGOON_ASSIGN_OR_RETURN(Scheduler made, MakeScheduler(scheduler));
  made.config.depth = depth;
  return made;
}

PreemptionWay WaitWay() { return {"wait, all queued", "wait", 0, SimAbort::kCheck}; }
PreemptionWay KillWay() { return {"reset, kills", "reset", 4, SimAbort::kKill}; }
PreemptionWay CheckWay() { return {"reset, checks", "reset", 4, SimAbort::kCheck}; }

SimModel FullKernels(const GpuModel& gpu, std::size_t kernels, Nanoseconds time) {
  SimModelKernel kernel;
  kernel.blocks = static_cast<std::uint32_t>(gpu.constants.units);
  kernel.time = kernel.block.time = time;
  SimModel model;
  model.statistics.device = "any";
  model.statistics.model = "full";
  model.statistics.kernels = static_cast<std::uint32_t>(kernels);
  model.statistics.time = time * static_cast<std::int64_t>(kernels);
  model.kernels.assign(kernels, kernel);
  return model;
}

Result<std::vector<double>> PreemptionUs(const PreemptionCase& preempted,
                                         const PreemptionWay& way) {
  const SimModel urgent = FullKernels(preempted.gpu, 1, kRealTimeKernel);
  std::vector<DisbClient> clients{{"rt", "full", JobClass::kRealTime, {}}};
  clients[0].load.kind = DisbLoad::Kind::kTrace;
  std::vector<SimStageQueue> queues{{"rt", JobClass::kRealTime, &urgent}};
  for (const SimModel* model : preempted.best_effort) {
    clients.push_back({"be", "be", JobClass::kBestEffort, {}});
    queues.push_back({"be", JobClass::kBestEffort, model});
  }
  DisbWindow window{Nanoseconds(0), std::vector<std::vector<Nanoseconds>>(clients.size())};
  std::mt19937 random(preempted.seed);
  for (int i = 0; i < preempted.requests; ++i) {
    window.span += Nanoseconds(
        static_cast<std::int64_t>((0.5 + Uniform(random)) * static_cast<double>(kGap.count())));
    window.arrivals[0].push_back(window.span);
  }
  window.span += kGap;
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, way.Make());
  LAGOON_ASSIGN_OR_RETURN(SimStage stage, SimStage::Open({.gpu = preempted.gpu, .abort = way.abort},
                                                         std::move(scheduler), queues));
  return stage.Run(clients, window, milliseconds(20)).front().starts_us;
}

Result<RestoreCost> MeasureRestore(const PreemptionCase& preempted, const PreemptionWay& way) {
  const SimModel urgent = FullKernels(preempted.gpu, 1, kRealTimeKernel);
  const std::vector<SimStageQueue> queues{
      {"rt", JobClass::kRealTime, &urgent},
      {"be", JobClass::kBestEffort, preempted.best_effort.front()}};
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, way.Make());
  LAGOON_ASSIGN_OR_RETURN(SimStage stage, SimStage::Open({.gpu = preempted.gpu, .abort = way.abort},
                                                         std::move(scheduler), queues));
  SimDevice& device = stage.device();
  Probe alone;
  LAGOON_RETURN_IF_ERROR(Post(stage, 1, alone));
  while (!alone.done) device.Wait(kNoDeadline);
  RestoreCost cost;
  cost.alone_us = ToMicroseconds(alone.took());
  cost.host_use = ToMicroseconds(device.host_time()) / cost.alone_us;
  std::mt19937 random(preempted.seed);
  for (int i = 0; i < preempted.requests; ++i) {
    Probe best_effort, real_time;
    LAGOON_RETURN_IF_ERROR(Post(stage, 1, best_effort));
    const double part = 0.02 + 0.9 * Uniform(random);  // some kernels are left to run afterwards
    const TimePoint moment =
        device.Now() + std::chrono::duration_cast<Nanoseconds>(part * alone.took());
    while (device.Now() < moment) device.Wait(moment);
    LAGOON_RETURN_IF_ERROR(Post(stage, 0, real_time));
    while (!best_effort.done || !real_time.done) device.Wait(kNoDeadline);
    cost.us.push_back(ToMicroseconds(best_effort.took() - alone.took() - real_time.took()));
  }
  return cost;
}

}  // namespace lagoon::bench
