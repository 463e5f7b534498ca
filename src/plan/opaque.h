#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "plan/tensor.h"

namespace lagoon {

/// An output as a run of an engine has made it.
struct MadeTensor {
  DataType type = DataType::kFloat32;
  Dims dims;
  std::vector<std::byte> bytes;
  std::vector<char> text = {};  // kString: what the elements point to
};

/// An output of an op that an engine computes.
struct OpaqueOutput {
  std::uint32_t op = 0;  // index in Plan::ops
  std::uint32_t output = 0;
};

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
  /// The longest run so far; 0 before the first one. The scheduler reads it.
  virtual Nanoseconds longest() const = 0;
  /// Takes what went wrong in the last run whose status lies at `status`. Null: nothing did, or it
  /// was taken.
  virtual std::shared_ptr<const Error> TakeError(const void* status) const = 0;

  /// Whether the shapes of outputs are assumed: the engine did not tell them, so they are those of
  /// a run on made-up data.
  virtual bool assumed() const = 0;
  /// Whether the data of a run have led to other shapes than the assumed ones. That run has failed.
  /// A plan that is made from now on makes no such assumption.
  virtual bool outdated() const = 0;

  /// Takes output `output` (PlanTensor::made) of the last run whose status lies at `status`. Null:
  /// there is none, or it was taken.
  virtual std::shared_ptr<const MadeTensor> Take(const void* status, std::size_t output) const = 0;

  /// Takes the outputs of strings that the last run whose status lies at `status` has written to
  /// the arena, and adds them to `to`: they own the bytes to which the elements point.
  virtual void TakeStrings(const void* /*status*/,
                           std::vector<std::shared_ptr<const MadeTensor>>& /*to*/) const {}
};

}  // namespace lagoon
