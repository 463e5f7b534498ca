#include "bench/split/lagoon_models.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/measure/statistics.h"
#include "bench/split/mixed_client.h"
#include "bench/split/search_metrics.h"
#include "policies/registry.h"
#include "program/split/choose.h"

namespace lagoon::bench {
namespace {

constexpr std::size_t kShortModels = 3;
constexpr int kProfileRuns = 7;
constexpr int kAloneRuns = 20;
constexpr Nanoseconds kBefore = std::chrono::milliseconds(50);  // from a dispatcher to its window

Nanoseconds FromMs(double ms) {
  return std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double, std::milli>(ms));
}

}  // namespace

Result<std::unique_ptr<LagoonModels>> LagoonModels::Open(const std::string& zoo,
                                                         const std::vector<std::string>& names,
                                                         const DeviceChoice& device) {
  std::unique_ptr<LagoonModels> all(new LagoonModels);
  LAGOON_ASSIGN_OR_RETURN(all->on_, OpenDevice(device));
  for (const std::string& name : names) LAGOON_RETURN_IF_ERROR(all->Load(zoo, name));
  all->FindShortOnes();
  LAGOON_RETURN_IF_ERROR(all->CutLongOnes());
  return all;
}

Status LagoonModels::Load(const std::string& zoo, const std::string& name) {
  LAGOON_ASSIGN_OR_RETURN(std::unique_ptr<BoundModel> model,
                          BoundModel::Load(ModelFile(zoo, name), name, on_));
  LAGOON_RETURN_IF_ERROR(model->Profile(*on_.device, kProfileRuns));
  std::vector<double> ms;
  for (int i = 0; i < kAloneRuns; ++i) {
    const TimePoint begin = Now();
    LAGOON_RETURN_IF_ERROR(model->Run(*on_.device));
    ms.push_back(ToMilliseconds(Now() - begin));
  }
  names_.push_back({name});
  alone_ms_.push_back(Median(ms));
  models_.push_back(std::move(model));
  return {};
}

void LagoonModels::FindShortOnes() {
  std::vector<double> sorted = alone_ms_;
  std::sort(sorted.begin(), sorted.end());
  const double longest_ms = sorted[std::min(kShortModels, sorted.size()) - 1];
  for (std::size_t i = 0; i < names_.size(); ++i) names_[i].is_short = alone_ms_[i] <= longest_ms;
}

Status LagoonModels::CutLongOnes() {
  const Nanoseconds shortest = FromMs(*std::min_element(alone_ms_.begin(), alone_ms_.end()));
  for (std::size_t i = 0; i < models_.size(); ++i) {
    if (!IsLong(FromMs(alone_ms_[i]), shortest)) continue;
    LAGOON_RETURN_IF_ERROR(models_[i]->SetParts(kAutoParts));
  }
  return {};
}

Result<SplitAnswers> LagoonModels::Run(const SplitRun& run, std::span<const SplitArrival> arrivals,
                                       std::span<const Nanoseconds> limits) {
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(run.spec));
  Dispatcher dispatcher(*on_.device, scheduler.config, std::move(scheduler.policy));
  std::vector<QueueId> queues;
  for (std::size_t i = 0; i < models_.size(); ++i) {
    QueueOptions queue;
    queue.name = names_[i].name;
    queue.job_class = ClassOf(run, names_[i]);
    queue.instances = {&models_[i]->instance()};
    queue.max_pending = 100'000;  // no request is dropped: lateness shows as latency
    LAGOON_ASSIGN_OR_RETURN(queues.emplace_back(), dispatcher.AddQueue(std::move(queue)));
  }
  return MixedClient(dispatcher, queues, models_, limits).Run(Now() + kBefore, arrivals);
}

Result<double> LagoonModels::MedianMs(const std::string& spec, std::size_t model, int runs) {
  // Far enough apart that no request meets another.
  const Nanoseconds gap = FromMs(2 * alone_ms_[model] + 5);
  std::vector<SplitArrival> arrivals;
  for (int i = 0; i < runs; ++i) arrivals.push_back({i * gap, model});
  LAGOON_ASSIGN_OR_RETURN(const SplitAnswers answers, Run({spec, spec}, arrivals, {}));
  if (answers[model].latencies_ms.empty()) {
    return Fail(ErrorCode::kInternal,
                fmt::format("model '{}': no answer under '{}'", names_[model].name, spec));
  }
  return Median(answers[model].latencies_ms);
}

Status LagoonModels::WriteParts(Report& report) {
  for (std::size_t i = 0; i < models_.size(); ++i) {
    const std::string& name = names_[i].name;
    report.Metric("alone_ms." + name, alone_ms_[i]);
    const Plan& plan = models_[i]->instance().plan();
    if (plan.part_ends.empty()) continue;
    const auto parts = static_cast<std::uint32_t>(plan.part_ends.size());
    report.Metric("split_parts." + name, parts);
    LAGOON_RETURN_IF_ERROR(WriteSearchMetrics(name, SplitModelOf(plan), parts, report));
    LAGOON_ASSIGN_OR_RETURN(const double cut_ms, MedianMs("split:elastic=0", i, kAloneRuns));
    LAGOON_ASSIGN_OR_RETURN(const double whole_ms, MedianMs("split-whole", i, kAloneRuns));
    report.Metric(fmt::format("split_overhead.{}.{}.plan", name, parts), cut_ms / whole_ms - 1);
  }
  return {};
}

}  // namespace lagoon::bench
