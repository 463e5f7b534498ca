#include "serving/late/late_requests.h"

#include "base/guard.h"
#include "base/hex.h"
#include "base/log.h"

namespace lagoon {

void LateRequests::Add(LateRequest late, const InferRequest& asked, Nanoseconds off_core) const {
  const Status added = WithoutExceptions([&]() -> Status {
    late.arrival = asked.arrival;
    if (asked.trace.any()) late.trace = HexOf(asked.trace.trace);
    late.off_core = dispatcher_.Stats().off_core - off_core;
    late.work = work_;
    log_.Add(std::move(late));
    return {};
  });
  if (!added)
    spdlog::warn("model '{}': no record of a late request: {}", late.model, added.error().message);
}

}  // namespace lagoon
