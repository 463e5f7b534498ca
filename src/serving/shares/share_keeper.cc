#include "serving/shares/share_keeper.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/guard.h"
#include "base/log.h"
#include "base/thread.h"
#include "serving/model/served_model.h"
#include "serving/request/batcher.h"
#include "trace/recorder.h"

namespace lagoon {
namespace {

constexpr Nanoseconds kPeriod = std::chrono::seconds(1);

}  // namespace

Result<std::unique_ptr<ShareKeeper>> ShareKeeper::Start(const ShareKeeperOptions& options,
                                                        Device& device, Dispatcher& dispatcher) {
  const DeviceInfo& info = device.info();
  std::unique_ptr<ShareKeeper> keeper(new ShareKeeper(options, device, dispatcher));
  LAGOON_ASSIGN_OR_RETURN(
      keeper->manager_,
      ShareManager::Make(
          {.kind = options.kind, .units = info.units, .granule = std::max(info.share_granule, 1u)},
          *keeper));
  keeper->thread_ =
      std::jthread([raw = keeper.get()](const std::stop_token& stop) { raw->Run(stop); });
  return keeper;
}

ShareKeeper::~ShareKeeper() = default;

void ShareKeeper::Run(const std::stop_token& stop) {
  NameThisThread("lagoon-shares");
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
    if (stop.stop_requested()) return;
    const Status stepped = WithoutExceptions([&]() -> Status {
      manager_->Step(device_.Now());
      return {};
    });
    if (!stepped) spdlog::warn("the shares are not tuned: {}", stepped.error().message);
  }
}

// ---- The models

Status ShareKeeper::CheckKind(std::span<const Model> come) const {
  const bool any =
      std::ranges::any_of(come, [](const Model& one) { return one.model->settings().share.any(); });
  if (!any) return {};
  if (options_.kind == ShareKind::kUnits && device_.info().share_granule == 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the shares cannot be ranges of units: device '{}' has no such ranges; "
                            "use `--shares weight` and the scheduler 'weighted'",
                            device_.info().name));
  }
  if (options_.kind == ShareKind::kWeight && dispatcher_.config().name != "weighted") {
    spdlog::warn(
        "the shares of models are weights, which have no effect under the scheduler '{}': use "
        "'weighted'",
        dispatcher_.config().name);
  }
  return {};
}

Status ShareKeeper::Replace(std::span<const ServedModel* const> gone, std::vector<Model> come) {
  LAGOON_RETURN_IF_ERROR(CheckKind(come));
  std::vector<std::size_t> left, added;
  for (const ServedModel* const model : gone) {
    if (const auto id = IdOf(model)) left.push_back(*id);
  }
  // Where memory runs out, no model stays known that the caller frees.
  Status replaced = WithoutExceptions([&] {
    std::vector<SharedModel> shared;
    for (Model& one : come) {
      const ServedModel& model = *one.model;
      const BatchLimitSettings& limit = model.settings().batching.limit;
      auto known = std::make_shared<const Model>(std::move(one));
      const MutexLock lock(models_mutex_);
      added.push_back(next_id_++);
      models_.emplace(added.back(), std::move(known));
      shared.push_back({model.name(), model.version(), model.settings().share, limit.slo,
                        limit.slo_of, added.back()});
    }
    return manager_->Replace(left, std::move(shared), device_.Now());
  });
  Forget(replaced ? left : added);
  return replaced;
}

void ShareKeeper::Forget(std::span<const std::size_t> ids) {
  const MutexLock lock(models_mutex_);
  for (const std::size_t id : ids) models_.erase(id);
}

std::shared_ptr<const ShareKeeper::Model> ShareKeeper::Find(std::size_t id) const {
  const MutexLock lock(models_mutex_);
  return models_.at(id);
}

std::optional<std::size_t> ShareKeeper::IdOf(const ServedModel* model) const {
  const MutexLock lock(models_mutex_);
  for (const auto& [id, known] : models_) {
    if (known->model == model) return id;
  }
  return std::nullopt;
}

// ---- What operators ask

SharesReport ShareKeeper::Read() const { return manager_->Read(); }

Status ShareKeeper::SetRules(const SharesRules& rules) {
  return manager_->SetRules(rules, device_.Now());
}

Status ShareKeeper::Resize(const ServedModel& model, const ShareWanted& wanted) {
  const auto id = IdOf(&model);
  if (!id && !model.is_program()) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("model '{}' is being replaced or unloaded; try again", model.name()));
  }
  if (!id) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("model '{}' is a job program, which has no share: the models that it "
                            "runs have",
                            model.name()));
  }
  const Status resized = manager_->Resize(*id, wanted, device_.Now());
  if (!resized) return Annotate(fmt::format("model '{}'", model.name()), Error(resized.error()));
  return {};
}

void ShareKeeper::AddTo(std::span<ModelStatistics> statistics) const {
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

// ---- What the manager asks

Status ShareKeeper::Move(std::size_t model, UnitRange units) {
  return Find(model)->model->MoveShare(units, dispatcher_);
}

Status ShareKeeper::SetWeight(std::size_t model, double weight) {
  return Find(model)->model->SetWeight(weight, dispatcher_);
}

LoadReading ShareKeeper::ReadLoad(std::size_t model, TimePoint now) {
  return Find(model)->model->load().Read(now);
}

void ShareKeeper::ForgetTimes(std::size_t model) { Find(model)->model->load().Moved(); }

BatchNotice ShareKeeper::TakeNotice(std::size_t model) {
  BatchNotice notice = BatchNotice::kNone;
  const std::shared_ptr<const Model> found = Find(model);
  for (Batcher* const batcher : found->batchers) {
    const BatchNotice taken = batcher->TakeNotice();
    if (taken != BatchNotice::kNone) notice = taken;
  }
  return notice;
}

std::int64_t ShareKeeper::MostRows(std::size_t model) const {
  std::int64_t rows = 0;
  const std::shared_ptr<const Model> found = Find(model);
  for (const Batcher* const batcher : found->batchers) {
    rows = std::max(rows, batcher->MostRows());
  }
  return rows;
}

void ShareKeeper::OnChange(std::size_t model, const ShareChange& change, UnitRange units) {
  if (options_.trace == nullptr) return;
  options_.trace->OnShare({.model = Find(model)->model->name(),
                           .from = change.from,
                           .to = change.to,
                           .units = units,
                           .why = change.why,
                           .at = change.at});
}

}  // namespace lagoon
