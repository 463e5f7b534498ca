#include "serving/request/pass.h"

#include <utility>

#include "serving/request/batcher.h"
#include "serving/request/plan_maker.h"

namespace lagoon {
namespace {

/// Null: the request is not joined with others.
Batcher* BatcherOf(const Flight& flight) {
  const LoadedVersion& version = flight.version();
  // Contents that decide a plan are of one request.
  if (version.own == nullptr || flight.model().contents_decide()) return nullptr;
  const bool lowered =
      flight.request().asked.priority >= kLoweredPriority && version.lowered != nullptr;
  return (lowered ? version.lowered : version.own).get();
}

}  // namespace

Status PassOn(const std::shared_ptr<Flight>& flight, PlanMaker& maker) {
  ServedModel& model = flight->model();
  auto plan = model.FindPlan(flight->Key());
  if (plan == nullptr && !model.MakesPlanFor(flight->dims())) {
    return tl::unexpected<Error>(model.OtherShapeError());
  }
  if (plan == nullptr || Outdated(plan->loaded->plan)) {
    maker.Make(flight);
    return {};
  }
  Batcher* const batcher = BatcherOf(*flight);
  if (batcher != nullptr && FitsBatches(*plan, flight->request().rows)) {
    LAGOON_RETURN_IF_ERROR(flight->TakeRoomFor(*plan));
    batcher->Add(flight, *plan);
    return {};
  }
  flight->Post(std::move(plan));
  return {};
}

}  // namespace lagoon
