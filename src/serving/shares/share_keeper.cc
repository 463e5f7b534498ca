#include "serving/shares/share_keeper.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "serving/batch/batcher.h"
#include "serving/served_model.h"
#include "trace/recorder.h"

namespace lagoon {
namespace {

constexpr Nanoseconds kPeriod = std::chrono::seconds(1);

}  // namespace

Result<std::unique_ptr<ShareKeeper>> ShareKeeper::Start(std::vector<Model> models,
                                                        const ShareKeeperOptions& options,
                                                        Device& device, Dispatcher& dispatcher) {
  const ShareKind kind = options.kind;
  const DeviceInfo& info = device.info();
  std::vector<SharedModel> shared;
  bool any = false;
  for (const Model& one : models) {
    const ServedModel& model = *one.model;
    const BatchLimitSettings& limit = model.settings().batching.limit;
    shared.push_back(
        {model.name(), model.version(), model.settings().share, limit.slo, limit.slo_of});
    any = any || model.settings().share.any();
  }
  if (kind == ShareKind::kUnits && info.share_granule == 0 && any) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the shares cannot be ranges of units: device '{}' has no such ranges; "
                            "use `--shares weight` and the scheduler 'weighted'",
                            info.name));
  }
  if (kind == ShareKind::kWeight && any && dispatcher.config().name != "weighted") {
    spdlog::warn(
        "the shares of models are weights, which have no effect under the scheduler '{}': use "
        "'weighted'",
        dispatcher.config().name);
  }
  std::unique_ptr<ShareKeeper> keeper(
      new ShareKeeper(std::move(models), options.trace, device, dispatcher));
  LAGOON_ASSIGN_OR_RETURN(
      keeper->manager_,
      ShareManager::Make(
          {.kind = kind, .units = info.units, .granule = std::max(info.share_granule, 1u)},
          std::move(shared), *keeper, device.Now()));
  keeper->thread_ =
      std::jthread([raw = keeper.get()](const std::stop_token& stop) { raw->Run(stop); });
  return keeper;
}

ShareKeeper::~ShareKeeper() = default;

void ShareKeeper::Run(const std::stop_token& stop) {
  const std::stop_callback wake(stop, [this] {
    const MutexLock lock(mutex_);
    wake_.NotifyAll();
  });
  while (!stop.stop_requested()) {
    const TimePoint next = lagoon::Now() + kPeriod;
    {
      const MutexLock lock(mutex_);
      while (!stop.stop_requested() && lagoon::Now() < next) wake_.WaitUntil(mutex_, next);
    }
    if (!stop.stop_requested()) manager_->Step(device_.Now());
  }
}

SharesReport ShareKeeper::Read() { return manager_->Read(device_.Now()); }

Status ShareKeeper::SetRules(const SharesRules& rules) { return manager_->SetRules(rules); }

Status ShareKeeper::Resize(const ServedModel& model, const ShareWanted& wanted) {
  const auto found = std::ranges::find(models_, &model, &Model::model);
  if (found == models_.end()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model '{}' is a job program, which has no share: the models that it "
                            "runs have",
                            model.name()));
  }
  const Status resized =
      manager_->Resize(static_cast<std::size_t>(found - models_.begin()), wanted, device_.Now());
  if (!resized) return Annotate(fmt::format("model '{}'", model.name()), Error(resized.error()));
  return {};
}

void ShareKeeper::AddTo(std::span<ModelStatistics> statistics) {
  const SharesReport report = Read();
  for (ModelStatistics& model : statistics) {
    const auto share = std::ranges::find_if(report.models, [&](const ModelShare& one) {
      return one.model == model.name && one.version == model.version;
    });
    if (share == report.models.end()) continue;  // a job program
    model.share = share->share.value_or(0);
    model.share_moves = share->moves;
  }
}

Status ShareKeeper::Move(std::size_t model, UnitRange units) {
  return models_[model].model->MoveShare(units, dispatcher_);
}

Status ShareKeeper::SetWeight(std::size_t model, double weight) {
  return models_[model].model->SetWeight(weight, dispatcher_);
}

LoadReading ShareKeeper::ReadLoad(std::size_t model, TimePoint now) {
  return models_[model].model->load().Read(now);
}

void ShareKeeper::ForgetTimes(std::size_t model) { models_[model].model->load().Moved(); }

BatchNotice ShareKeeper::TakeNotice(std::size_t model) {
  BatchNotice notice = BatchNotice::kNone;
  for (Batcher* const batcher : models_[model].batchers) {
    const BatchNotice taken = batcher->TakeNotice();
    if (taken != BatchNotice::kNone) notice = taken;
  }
  return notice;
}

std::int64_t ShareKeeper::MostRows(std::size_t model) const {
  std::int64_t rows = 0;
  for (const Batcher* const batcher : models_[model].batchers) {
    rows = std::max(rows, batcher->MostRows());
  }
  return rows;
}

void ShareKeeper::OnChange(std::size_t model, const ShareChange& change, UnitRange units) {
  if (trace_ == nullptr) return;
  trace_->OnShare({.model = models_[model].model->name(),
                   .from = change.from,
                   .to = change.to,
                   .units = units,
                   .why = change.why,
                   .at = change.at});
}

}  // namespace lagoon
