#pragma once

#include <memory>

#include "base/mutex.h"
#include "server/remote/ingress_core.h"

namespace lagoon {

/// A request that the ingress has taken and not answered.
struct IngressCore::Flight {
  // Set before the flight is sent. `request` and `callback` belong to the thread that sends or
  // ends the flight: there is one at a time, because a member answers each call once.
  InferRequest request;
  InferCallback callback;
  std::uint64_t handle = 0;
  std::shared_ptr<Counts> counts;

  Mutex mutex;
  int attempts GUARDED_BY(mutex) = 0;  // members that it was sent to
  Member member GUARDED_BY(mutex);     // of the last attempt
  RequestHandle at_member GUARDED_BY(mutex){};
  bool cancelled GUARDED_BY(mutex) = false;
};

}  // namespace lagoon
