#pragma once

// What a client asked of a model.

#include <cstdint>
#include <memory>

#include "base/time.h"
#include "serving/core/request.h"
#include "serving/model/buckets.h"
#include "serving/model/request_check.h"
#include "serving/request/tenants.h"

namespace lagoon {

/// A request that was admitted. Immutable, so that any thread may read it. Owns the bytes of the
/// inputs until the last pointer to the request goes.
struct Request {
  InferRequest asked;
  RequestBinding binding;  // the tensors of `asked` as those of the model
  RequestPadding padding;
  TimePoint deadline = kNoDeadline;
  TimePoint admitted;     // the edge has handed the request over
  std::int64_t rows = 1;  // at least 1
  /// DispatcherStats::off_core at `admitted`, of requests that LateRequests may tell of.
  Nanoseconds off_core{0};
  std::shared_ptr<const Tenants::Hold> tenant = {};  // null: it has none

  /// JobSpec::tenant.
  std::uint32_t tenant_number() const { return tenant == nullptr ? 0 : tenant->number(); }
};

}  // namespace lagoon
