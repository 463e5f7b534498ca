#include "serving/request/loaded_version.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "serving/request/batcher.h"
#include "serving/request/plan_maker.h"
#include "serving/request/python_queue.h"
#include "serving/request/sequences.h"

namespace lagoon {
namespace {

/// InferRequest::priority of requests of the model's own class.
constexpr std::uint64_t kOwnPriority = 0;

}  // namespace

LoadedVersion::LoadedVersion(std::unique_ptr<ServedModel> loaded, std::int64_t version)
    : model(std::move(loaded)), number(version) {}

LoadedVersion::~LoadedVersion() = default;

Status LoadedVersion::Start(Dispatcher& dispatcher, PlanMaker& maker) {
  dispatcher_ = &dispatcher;
  if (model->is_ensemble()) return {};  // the models of its steps have queues
  if (model->is_python()) {
    python = std::make_unique<PythonQueue>(*model);
    return {};
  }
  if (Status added = model->AddQueues(dispatcher); !added) {
    const Status removed = model->RemoveQueues(dispatcher);
    LAGOON_CHECK(removed.has_value());  // no job has used the queues
    return added;
  }
  if (model->sequence()) sequences = std::make_unique<Sequences>(*model, maker);
  if (!model->settings().batching.enabled) return {};
  own = std::make_unique<Batcher>(*model, kOwnPriority, dispatcher, maker);
  if (model->settings().job_class != JobClass::kRealTime) return {};
  lowered = std::make_unique<Batcher>(*model, kLoweredPriority, dispatcher, maker);
  return {};
}

void LoadedVersion::StopBatchers() {
  python.reset();
  sequences.reset();
  own.reset();
  lowered.reset();
}

Status LoadedVersion::Stop(Dispatcher& dispatcher, PlanMaker& maker) {
  StopBatchers();
  maker.Forget(*model);
  return model->RemoveQueues(dispatcher);
}

std::vector<Batcher*> LoadedVersion::Batchers() const {
  std::vector<Batcher*> batchers;
  for (const auto* batcher : {&own, &lowered}) {
    if (*batcher != nullptr) batchers.push_back(batcher->get());
  }
  return batchers;
}

SharedModel::Terms LoadedVersion::ShareTerms() const {
  const ModelSettings& settings = model->settings();
  return {model->name(),
          model->version(),
          settings.share,
          settings.batching.limit.slo,
          settings.batching.limit.slo_of,
          model->knee(),
          model->surface()};
}

Status LoadedVersion::MoveShare(UnitRange units) { return model->MoveShare(units, *dispatcher_); }

Status LoadedVersion::SetWeight(double weight) { return model->SetWeight(weight, *dispatcher_); }

BatchNotice LoadedVersion::TakeNotice() {
  BatchNotice notice = BatchNotice::kNone;
  for (Batcher* const batcher : Batchers()) {
    const BatchNotice taken = batcher->TakeNotice();
    if (taken != BatchNotice::kNone) notice = taken;
  }
  return notice;
}

std::int64_t LoadedVersion::MostRows() const {
  std::int64_t rows = 0;
  for (const Batcher* const batcher : Batchers()) rows = std::max(rows, batcher->MostRows());
  return rows;
}

void LoadedVersion::LimitRows(std::int64_t rows) {
  for (Batcher* const batcher : Batchers()) batcher->SetCeiling(rows);
}

}  // namespace lagoon
