#include "bench/shares/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <set>

#include "base/check.h"
#include "base/log.h"
#include "base/text.h"
#include "bench/measure/seconds.h"
#include "bench/measure/statistics.h"
#include "bench/shares/sim_rows.h"
#include "bench/sim/sim_stage.h"
#include "cluster/knee.h"
#include "cluster/monitor.h"
#include "serving/shares/share_keeper.h"
#include "sim/cluster/arrivals.h"
#include "trace/recorder.h"

namespace lagoon::bench {
namespace {

constexpr Nanoseconds kStep = std::chrono::seconds(1);  // between two decisions, as in the server

// The devices, models and rates that all sides have in common.
struct TuneScene {
  GpuModel gpu;
  std::vector<SimModel> models;
  std::vector<double> alone_ms;  // by model: a request alone on the whole device
  std::vector<double> knees;     // by model: a part of the device (KneeOf)
  std::size_t phases() const { return models.size(); }
};

Status Check(const TuneOptions& options) {
  const auto wrong = [](std::string_view option, double value, std::string_view takes) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is {}, must be {}", option, value, takes));
  };
  const std::set<std::string> names(options.models.begin(), options.models.end());
  if (names.size() < 2 || names.size() != options.models.size()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} models, {} of them different; there must be at least two, each once",
                    options.models.size(), names.size()));
  }
  if (!(options.seconds >= 1 && options.seconds <= 3600)) {
    return wrong("the length in s", options.seconds, "from 1 to 3600");
  }
  if (!(options.hot > 0 && options.hot <= 10)) {
    return wrong("the load of the hot model", options.hot, "above 0, at most 10");
  }
  if (!(options.cold > 0 && options.cold <= 10)) {
    return wrong("the load of the other models", options.cold, "above 0, at most 10");
  }
  if (!(options.slo_factor >= 1 && options.slo_factor <= 1000)) {
    return wrong("the SLO in times alone", options.slo_factor, "from 1 to 1000");
  }
  if (!(options.hold_down_s >= 0 && options.hold_down_s <= 3600)) {
    return wrong("the hold-down in s", options.hold_down_s, "from 0 to 3600");
  }
  return {};
}

// Of ten shares, as `lagoon profile --shares` measures them.
Result<double> KneeOfModel(const GpuModel& gpu, const SimModel& model, std::uint32_t units) {
  std::vector<double> shares, throughput;
  std::uint32_t before = 0;
  for (std::uint32_t tenth = 1; tenth <= 10; ++tenth) {
    const std::uint32_t count = units * tenth / 10;
    if (count == before) continue;
    before = count;
    LAGOON_ASSIGN_OR_RETURN(const double ms, SimShareMs(gpu, model, count));
    shares.push_back(static_cast<double>(count) / units);
    throughput.push_back(1000 / ms);
  }
  return KneeOf(shares, throughput);
}

Result<TuneScene> SceneOf(const TuneOptions& options) {
  LAGOON_RETURN_IF_ERROR(Check(options));
  LAGOON_ASSIGN_OR_RETURN(const GpuModel gpu, LoadGpuModel(options.gpu));
  TuneScene scene{gpu, {}, {}, {}};
  const auto units = static_cast<std::uint32_t>(gpu.constants.units);
  if (units < options.models.size()) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} models on GPU '{}', which has {} units: each needs one for its share",
                    options.models.size(), gpu.name, units));
  }
  for (const std::string& name : options.models) {
    LAGOON_ASSIGN_OR_RETURN(const SimModel model, MakeSimModel(gpu.name, name));
    LAGOON_ASSIGN_OR_RETURN(scene.alone_ms.emplace_back(), SimShareMs(gpu, model, units));
    LAGOON_ASSIGN_OR_RETURN(scene.knees.emplace_back(), KneeOfModel(gpu, model, units));
    scene.models.push_back(model);
  }
  return scene;
}

// One side in virtual time, in one thread.
class Tuning {
 public:
  Tuning(const TuneOptions& options, const TuneScene& scene, SimStage& stage)
      : options_(options), scene_(scene), stage_(stage), begin_(stage.device().Now()) {
    for (std::size_t i = 0; i < scene.models.size(); ++i) AddModel(i);
  }

  Status Run(const TuneSide& side) {
    const TuneSide::Shares shares = side.shares;
    LAGOON_RETURN_IF_ERROR(MakeShares(side));
    const auto seconds = static_cast<int>(std::ceil(options_.seconds));
    for (int second = 1; second <= seconds; ++second) {
      RunUntil(begin_ + std::min(second * kStep, FromSeconds(options_.seconds)));
      if (shares == TuneSide::Shares::kTuned) keeper_->Step(stage_.device().Now());
      NoteShares();
    }
    while (unanswered_ > 0) stage_.device().Wait(kNoDeadline);
    return {};
  }

  TuneRun Take() {
    for (const TraceRecorder::ShareNote& note : recorder_.share_notes()) {
      run_.decisions.push_back({std::chrono::duration<double>(note.at - begin_).count(), note.model,
                                note.from, note.to, note.why});
    }
    return std::move(run_);
  }

 private:
  struct Request final : JobClient {
    void Finished(const JobResult& result) override { of->Answered(*this, result); }
    Tuning* of = nullptr;
    std::size_t model = 0;
    TimePoint arrival;
  };

  // A model with a share, on its queue.
  class Shared final : public SharedModel {
   public:
    Shared(Terms terms, Dispatcher& dispatcher, QueueId queue, LoadMonitor& monitor)
        : terms_(std::move(terms)), dispatcher_(dispatcher), queue_(queue), monitor_(monitor) {}
    Terms ShareTerms() const override { return terms_; }
    Status MoveShare(UnitRange units) override { return dispatcher_.MoveShare(queue_, units); }
    Status SetWeight(double weight) override { return dispatcher_.SetWeight(queue_, weight); }
    LoadReading ReadLoad(TimePoint now) override { return monitor_.Read(now); }
    void ForgetTimes() override { monitor_.Moved(); }
    BatchNotice TakeNotice() override { return BatchNotice::kNone; }
    std::int64_t MostRows() const override { return 0; }
    void LimitRows(std::int64_t /*rows*/) override {}

   private:
    const Terms terms_;
    Dispatcher& dispatcher_;
    const QueueId queue_;
    LoadMonitor& monitor_;
  };

  void AddModel(std::size_t index) {
    TunedModel& model = run_.models.emplace_back();
    model.name = options_.models[index];
    model.slo_ms = options_.slo_factor * scene_.alone_ms[index];
    ArrivalSpec spec = PoissonArrivals(0);
    spec.rates.clear();
    const double phase_s = options_.seconds / static_cast<double>(scene_.phases());
    for (std::size_t phase = 0; phase < scene_.phases(); ++phase) {
      const double part = phase == index ? options_.hot : options_.cold;
      model.rates.push_back(part * 1000 / scene_.alone_ms[index]);
      spec.rates.push_back({FromSeconds(static_cast<double>(phase) * phase_s), model.rates.back()});
    }
    arrivals_.emplace_back(spec, options_.seed + static_cast<unsigned>(index), Nanoseconds(0));
    next_.push_back(arrivals_.back().Next());
    monitors_.emplace_back();
  }

  // In whole granules: rounded up, the shares could be more than the device.
  double EqualShare() const {
    const DeviceInfo& info = stage_.device().info();
    const std::uint32_t granule = std::max(info.share_granule, 1U);
    const auto models = static_cast<std::uint32_t>(run_.models.size());
    const std::uint32_t units = info.units / granule / models * granule;
    return static_cast<double>(units) / info.units;
  }

  Status MakeShares(const TuneSide& side) {
    const TuneSide::Shares shares = side.shares;
    if (shares == TuneSide::Shares::kNone) return {};
    std::vector<SharedModel*> models;
    for (std::size_t i = 0; i < run_.models.size(); ++i) {
      SharedModel::Terms terms;
      terms.name = run_.models[i].name;
      terms.version.assign(1, '1');
      terms.share.automatic = shares == TuneSide::Shares::kTuned;
      if (!terms.share.automatic) terms.share.fixed = EqualShare();
      terms.slo = FromSeconds(run_.models[i].slo_ms / 1000);
      terms.slo_of = SloOf::kRequest;
      if (side.knee) terms.knee = scene_.knees[i];
      models.push_back(&shared_.emplace_back(std::move(terms), stage_.dispatcher(),
                                             *stage_.queues()[i], monitors_[i]));
    }
    const DeviceInfo& info = stage_.device().info();
    ShareKeeper::Options options;
    options.units = info.units;
    options.granule = std::max(info.share_granule, 1U);
    options.trace = &recorder_;
    options.hold_down = FromSeconds(options_.hold_down_s);
    if (!side.headroom) options.utilisation = 1;
    if (!side.surplus) options.surplus = MaxMinRules::Surplus::kNone;
    options.grow_at_once = side.growth;
    LAGOON_ASSIGN_OR_RETURN(keeper_, ShareKeeper::Make(options));
    return keeper_->Replace({}, models, stage_.device().Now());
  }

  std::size_t NextModel() const {
    std::size_t next = 0;
    for (std::size_t i = 1; i < next_.size(); ++i) {
      if (next_[i] && (!next_[next] || *next_[i] < *next_[next])) next = i;
    }
    return next;
  }

  void RunUntil(TimePoint until) {
    Device& device = stage_.device();
    while (device.Now() < until) {
      const std::size_t model = NextModel();
      const TimePoint arrival = next_[model] ? begin_ + *next_[model] : kNoDeadline;
      if (arrival < until && arrival <= device.Now()) {
        Post(model, arrival);
        next_[model] = arrivals_[model].Next();
      } else {
        device.Wait(std::min(arrival, until));
      }
    }
  }

  void Post(std::size_t model, TimePoint arrival) {
    if (free_.empty()) free_.push_back(&requests_.emplace_back());
    Request& request = *free_.back();
    free_.pop_back();
    request.of = this;
    request.model = model;
    request.arrival = arrival;
    ++run_.models[model].arrived;
    ++unanswered_;
    monitors_[model].Arrived(1, arrival);
    const auto posted =
        stage_.dispatcher().Post({*stage_.queues()[model], kNoDeadline, {}, {}, &request});
    LAGOON_CHECK(posted.has_value());  // a stage's queues hold a million
  }

  void Answered(Request& request, const JobResult& result) {
    --unanswered_;
    free_.push_back(&request);
    if (result.outcome != Outcome::kDone) {
      ++run_.lost;
      return;
    }
    const Nanoseconds latency = result.finished - request.arrival;
    run_.models[request.model].latencies_ms.push_back(ToMilliseconds(latency));
    LoadMonitor& monitor = monitors_[request.model];
    const Nanoseconds kernels = result.computed - result.first_block;
    const Nanoseconds took = result.finished - result.started;
    monitor.Ended({.rows = 1, .took = took, .host = took - kernels, .device = kernels},
                  result.finished);
    monitor.Answered(latency, result.finished);
  }

  void NoteShares() {
    if (keeper_ == nullptr) return;
    const SharesReport report = keeper_->Read();
    for (std::size_t i = 0; i < report.models.size(); ++i) {
      run_.models[i].share_percent.push_back(100 * report.models[i].share.value_or(0));
    }
  }

  const TuneOptions& options_;
  const TuneScene& scene_;
  SimStage& stage_;
  const TimePoint begin_;
  TuneRun run_;
  std::vector<lagoon::Arrivals> arrivals_;        // by model
  std::vector<std::optional<Nanoseconds>> next_;  // arrival since begin_, by model
  std::vector<LoadMonitor> monitors_;             // by model
  TraceRecorder recorder_{TraceOptions{.max_blocks = 1, .max_events = 1}};  // of the decisions
  std::deque<Shared> shared_;                                               // by model
  std::unique_ptr<ShareKeeper> keeper_;                                     // null: no shares
  std::deque<Request> requests_;
  std::vector<Request*> free_;
  std::uint64_t unanswered_ = 0;
};

Result<TuneRun> RunSide(const TuneOptions& options, const TuneScene& scene, const TuneSide& side) {
  std::vector<SimStageQueue> queues;
  for (std::size_t i = 0; i < scene.models.size(); ++i) {
    queues.push_back({options.models[i], JobClass::kBestEffort, &scene.models[i], 1, {}});
  }
  LAGOON_ASSIGN_OR_RETURN(Scheduler scheduler, MakeScheduler(side.scheduler));
  LAGOON_ASSIGN_OR_RETURN(SimStage stage,
                          SimStage::Open({.gpu = scene.gpu}, std::move(scheduler), queues));
  Tuning tuning(options, scene, stage);
  LAGOON_RETURN_IF_ERROR(tuning.Run(side));
  return tuning.Take();
}

double MovesOf(const TuneRun& run) {
  return static_cast<double>(
      std::ranges::count_if(run.decisions, [](const TuneDecision& one) { return one.from > 0; }));
}

void WriteSide(const TuneOptions& options, const TuneSide& side, const TuneRun& run,
               Report& report) {
  double kept_of_all = 0, all = 0;
  for (const TunedModel& model : run.models) {
    const std::string of = fmt::format("{}.{}", side.name, model.name);
    const auto kept = static_cast<double>(
        std::ranges::count_if(model.latencies_ms, [&](double ms) { return ms <= model.slo_ms; }));
    kept_of_all += kept;
    all += static_cast<double>(model.arrived);
    report.Metric(fmt::format("throughput_ips.{}", of),
                  static_cast<double>(model.latencies_ms.size()) / options.seconds);
    report.Metric(fmt::format("slo_kept.{}", of),
                  kept / std::max(1.0, static_cast<double>(model.arrived)));
    if (model.latencies_ms.empty()) continue;
    const int tail = model.latencies_ms.size() >= kSamplesForP99 ? 99 : 90;
    for (const int percent : {50, tail}) {
      report.Metric(fmt::format("latency_ms_p{}.{}", percent, of),
                    Percentile(model.latencies_ms, percent));
    }
  }
  if (all > 0) report.Metric(fmt::format("slo_kept.{}", side.name), kept_of_all / all);
  report.Metric(fmt::format("moves.{}", side.name), MovesOf(run));
  report.Metric(fmt::format("requests_lost.{}", side.name), static_cast<double>(run.lost));
}

// Writes the metrics that only the side `tuned` has.
void WriteTuned(const TuneOptions& options, const TuneRun& run, Report& report) {
  const std::size_t phases = run.models.size();
  const double phase_s = options.seconds / static_cast<double>(phases);
  nlohmann::json list = nlohmann::json::array(), slo = nlohmann::json::object();
  for (std::size_t phase = 0; phase < phases; ++phase) {
    const double begin_s = static_cast<double>(phase) * phase_s;
    nlohmann::json rates = nlohmann::json::object();
    for (const TunedModel& model : run.models) rates[model.name] = model.rates[phase];
    list.push_back(
        {{"begin_s", begin_s}, {"hot", run.models[phase].name}, {"rates_ips", std::move(rates)}});
    const double settled = SettleSeconds(run.decisions, begin_s, begin_s + phase_s).value_or(0);
    report.Metric(fmt::format("settle_s.p{}", phase + 1), settled);
  }
  for (const TunedModel& model : run.models) {
    slo[model.name] = model.slo_ms;
    for (std::size_t second = 0; second < model.share_percent.size(); ++second) {
      report.Metric(fmt::format("share_percent.{}.t{}", model.name, second + 1),
                    model.share_percent[second]);
    }
  }
  nlohmann::json decisions = nlohmann::json::array();
  for (const TuneDecision& one : run.decisions) {
    decisions.push_back({{"at_s", one.at_s},
                         {"model", one.model},
                         {"from_percent", 100 * one.from},
                         {"to_percent", 100 * one.to},
                         {"why", one.why}});
  }
  report.Field("phases", std::move(list));
  report.Field("slo_ms", std::move(slo));
  report.Field("decisions", std::move(decisions));
}

}  // namespace

const std::vector<TuneSide>& TuneSides() {
  using Shares = TuneSide::Shares;
  static const std::vector<TuneSide> sides = {
      {"tuned", "shares", Shares::kTuned},
      {"tuned-lent", "lagoon", Shares::kTuned},
      {"paper", "shares", Shares::kTuned, false, false, false, false},
      {"headroom", "shares", Shares::kTuned, true, false, false, false},
      {"surplus", "shares", Shares::kTuned, false, true, false, false},
      {"growth", "shares", Shares::kTuned, false, false, true, false},
      {"knee", "shares", Shares::kTuned, false, false, false, true},
      {"equal", "shares", Shares::kEqual},
      {"no-shares", "streams", Shares::kNone}};
  return sides;
}

std::optional<double> SettleSeconds(const std::vector<TuneDecision>& decisions, double begin_s,
                                    double end_s) {
  std::optional<double> settled;
  for (const TuneDecision& one : decisions) {
    if (one.from > 0 && one.at_s >= begin_s && one.at_s < end_s) settled = one.at_s - begin_s;
  }
  return settled;
}

Result<TuneRun> RunTuneSide(const TuneOptions& options, const TuneSide& side) {
  LAGOON_ASSIGN_OR_RETURN(const TuneScene scene, SceneOf(options));
  return RunSide(options, scene, side);
}

Status RunTune(const TuneOptions& options, Report& report) {
  spdlog::set_level(spdlog::level::warn);
  LAGOON_ASSIGN_OR_RETURN(const TuneScene scene, SceneOf(options));
  ProgressBar progress("bench shares --tune", static_cast<int>(TuneSides().size()));
  for (const TuneSide& side : TuneSides()) {
    LAGOON_ASSIGN_OR_RETURN(const TuneRun run, RunSide(options, scene, side));
    WriteSide(options, side, run, report);
    if (side.name == "tuned") WriteTuned(options, run, report);
    progress.Step(std::string(side.name));
  }
  return {};
}

}  // namespace lagoon::bench
