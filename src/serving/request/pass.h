#pragma once

#include <memory>

#include "base/status.h"
#include "serving/request/flight.h"

namespace lagoon {

class PlanMaker;

/// Hands a request over to what runs it, which answers it: `maker` if a plan is missing, a batcher,
/// or the dispatcher. After an error nothing has it.
Status PassOn(const std::shared_ptr<Flight>& flight, PlanMaker& maker);

}  // namespace lagoon
