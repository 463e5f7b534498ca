#include "bench/sim/decision.h"

#include <fmt/format.h>

#include "bench/measure/statistics.h"
#include "bench/sim/sim_jobs.h"
#include "bench/sim/timed_device.h"

namespace lagoon::bench {
namespace {

using Seconds = std::chrono::duration<double>;

struct Case {
  std::string name, scheduler;
  SimJobs jobs;
  std::vector<double> pick_us = {}, decision_us = {}, per_kernel_us = {};
  std::vector<double> padding_us = {};  // the decisions that chose a kernel to pad with
  std::uint64_t decisions = 0, kernels = 0;
  DispatcherStats stats = {};  // of the last round
};

// A policy with its picks timed.
class TimedPolicy final : public Policy {
 public:
  TimedPolicy(std::unique_ptr<Policy> policy, Case& seen)
      : policy_(std::move(policy)), seen_(seen) {}

  // Call it before the first pick.
  void Use(const TimedDevice& device) { device_ = &device; }

  JobOrders orders() const override { return policy_->orders(); }
  Decision Pick(const SchedulingView& view) override {
    asked_ = Now();
    inside_before_ = device_->inside();
    const Decision decision = policy_->Pick(view);
    seen_.pick_us.push_back(ToMicroseconds(Now() - asked_));
    picked_ = decision.job.has_value();
    return decision;
  }
  void OnArrival(const ScheduledJob& job) override {
    if (job.job_class == JobClass::kRealTime) ++real_time_;
    policy_->OnArrival(job);
  }
  void OnSubmitted(const ScheduledJob& job, std::uint32_t kernels) override {
    policy_->OnSubmitted(job, kernels);
    // Without a pick before this call, the mechanism submits more kernels of the job that already
    // pads. The decision for that job has been counted.
    if (!picked_) return;
    picked_ = false;
    const Nanoseconds took = Now() - asked_ - (device_->inside() - inside_before_);
    seen_.decision_us.push_back(ToMicroseconds(took));
    // While real-time work is there, best-effort kernels run as padding only.
    if (real_time_ > 0 && job.job_class == JobClass::kBestEffort) {
      seen_.padding_us.push_back(ToMicroseconds(took));
    }
    ++seen_.decisions;
    seen_.kernels += kernels;
  }
  void OnFinished(const ScheduledJob& job) override {
    if (job.job_class == JobClass::kRealTime) --real_time_;
    policy_->OnFinished(job);
  }

 private:
  const std::unique_ptr<Policy> policy_;
  Case& seen_;
  const TimedDevice* device_ = nullptr;
  TimePoint asked_;
  Nanoseconds inside_before_{0};
  bool picked_ = false;
  int real_time_ = 0;  // real-time jobs that have arrived and not finished
};

Status RunRound(Case& measured, const DecisionOptions& options) {
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel(measured.jobs.device));
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(measured.scheduler));
  auto timed_policy = std::make_unique<TimedPolicy>(std::move(scheduler.policy), measured);
  TimedPolicy& policy = *timed_policy;
  scheduler.policy = std::move(timed_policy);
  TimedDevice* device = nullptr;
  const auto wrap = [&](Device& simulated) {
    auto timed = std::make_unique<TimedDevice>(simulated);
    device = timed.get();
    policy.Use(*device);
    return timed;
  };
  LAGOON_ASSIGN_OR_RETURN(SimStage stage, SimStage::Open({.gpu = gpu}, std::move(scheduler),
                                                         measured.jobs.Queues(), wrap));
  const auto span = std::chrono::duration_cast<Nanoseconds>(Seconds(options.seconds));
  stage.Run(measured.jobs.clients, measured.jobs.Window(span), Nanoseconds(0));
  measured.stats = stage.dispatcher().Stats();
  measured.per_kernel_us.push_back(
      ToMicroseconds(device->listening() - device->inside_while_listening()) /
      static_cast<double>(device->launches_while_listening()));
  return {};
}

double ClockMicroseconds() {
  constexpr int kReadings = 1000;
  const TimePoint start = Now();
  for (int i = 0; i < kReadings; ++i) Now();
  return ToMicroseconds(Now() - start) / kReadings;
}

Status HasDecided(const Case& measured, double seconds) {
  if (measured.decisions > 0) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("case '{}': no decision in {} virtual seconds", measured.name, seconds));
}

void ReportCase(const Case& measured, Report& report) {
  report.Metric("decision_us_median." + measured.name, Median(measured.decision_us));
  report.Metric("decision_us_p99." + measured.name, Percentile(measured.decision_us, 99));
  report.Metric("kernels_per_decision." + measured.name,
                static_cast<double>(measured.kernels) / static_cast<double>(measured.decisions));
  report.Metric("decisions." + measured.name, static_cast<double>(measured.decisions));
  report.Metric("pick_us_median." + measured.name, Median(measured.pick_us));
  report.Metric("pick_us_p99." + measured.name, Percentile(measured.pick_us, 99));
  report.Metric("dispatcher_us_per_kernel." + measured.name, Median(measured.per_kernel_us));
}

}  // namespace

Status RunDecision(const DecisionOptions& options, Report& report) {
  LAGOON_ASSIGN_OR_RETURN(const SimJobs disb, SimJobs::Disb("gv100", "C"));
  LAGOON_ASSIGN_OR_RETURN(const SimJobs loops, SimJobs::Loops("t4", 1010));
  std::vector<Case> cases{{"five_best_effort", "lagoon", disb},
                          {"five_best_effort.reef", "reef", disb},
                          {"five_best_effort.reset", "reset", disb},
                          {"thousand_ready", "paella", loops}};
  ProgressBar progress("bench decision", options.rounds * static_cast<int>(cases.size()));
  for (int round = 0; round < options.rounds; ++round) {
    for (Case& measured : cases) {
      LAGOON_RETURN_IF_ERROR(RunRound(measured, options));
      progress.Step(measured.name);
    }
  }
  for (const Case& measured : cases) {
    LAGOON_RETURN_IF_ERROR(HasDecided(measured, options.seconds));
    ReportCase(measured, report);
  }
  report.Metric("clock_us", ClockMicroseconds());
  return {};
}

Result<PaddingChoices> MeasurePaddingChoices(const std::string& device, const std::string& workload,
                                             const std::string& scheduler, double seconds) {
  LAGOON_ASSIGN_OR_RETURN(SimJobs jobs, SimJobs::Disb(device, workload));
  Case measured{workload + "." + scheduler, scheduler, std::move(jobs)};
  LAGOON_RETURN_IF_ERROR(RunRound(measured, {.rounds = 1, .seconds = seconds}));
  if (measured.padding_us.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("case '{}': no kernel was padded in {} virtual seconds", measured.name,
                            seconds));
  }
  const auto choices = static_cast<double>(measured.stats.padding_choices);
  const auto candidates = static_cast<double>(measured.stats.padding_candidates);
  return PaddingChoices{Mean(measured.padding_us), candidates / choices};
}

}  // namespace lagoon::bench
