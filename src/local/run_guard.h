#pragma once

// What stands around the calls of a run.

#include <utility>

#include "base/guard.h"
#include "local/run.h"

namespace lagoon {

/// Does `work`, which returns a Status. What goes wrong is the run's message.
template <typename F>
RunCode Run::Guarded(F&& work) {
  if (!model_.device().usable()) return Refuse(LocalDevice::ForkedError());
  Status done = WithoutExceptions(std::forward<F>(work));
  return done ? RunCode::kOk : Refuse(std::move(done).error());
}

}  // namespace lagoon
