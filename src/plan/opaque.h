#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace lagoon {

/// A kernel that a plugged-in engine computes (engine/engine.h), because Lagoon has no kernels for
/// its ops. It has one block, which does not leave once it has started: it is preempted by waiting.
/// Any thread.
class OpaqueOp {
 public:
  virtual ~OpaqueOp() = default;

  /// The ops inside, sorted, each once: "Det", "ai.onnx.ml.TreeEnsembleRegressor".
  virtual const std::vector<std::string>& ops() const = 0;
  /// Why Lagoon does not run them itself.
  virtual const std::string& why() const = 0;
  /// The longest run so far; 0 before the first one.
  virtual Nanoseconds longest() const = 0;
  /// What went wrong in the last run that failed; null if none did.
  virtual std::shared_ptr<const Error> error() const = 0;
};

}  // namespace lagoon
